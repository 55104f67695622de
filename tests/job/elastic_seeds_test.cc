// Elastic training on simulated hosts, whatever befalls them: as long as anybody is left the training
// comes to its end, no batch is left out, and where gradients are averaged each is learned from once.
// What servers have acknowledged is in the final model, as long as they do not all die at once or have
// copies.
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "base/error.h"
#include "job/generations.h"
#include "runtime/patience.h"
#include "runtime/race.h"
#include "server/server_estate.h"
#include "sim/switch.h"
#include "strategy/dealer.h"
#include "strategy/estate.h"
#include "strategy/grid.h"
#include "strategy/registry.h"
#include "strategy/server_plan.h"
#include "strategy/step.h"
#include "strategy/systems.h"
#include "tests/job/flock_plan.h"
#include "tests/seeds.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

constexpr Time kStepTimeout = 20s;
constexpr Time kEndOfTraining = 900s;
constexpr std::size_t kElements = 23;

// Of each batch, a gradient that is its own.
float gradient_of(std::uint64_t batch) { return static_cast<float>(batch * 7 % 11 + 1); }

class TrainingWorld {
 public:
  TrainingWorld(std::uint64_t seed, const Settings& settings)
      : plan_(Random{seed, 1}),
        settings_(elastic(settings, plan_.size)),
        keeps_copies_(settings.server.replicas > 1),
        servers_(server_processes(settings_)),
        hosts_(plan_.hosts + servers_),
        hub_(loop_, hosts_, seed, plan_.weather),
        lives_(static_cast<std::size_t>(hosts_)) {
    batches_ = static_cast<std::uint64_t>(plan_.size) * 60;
    if (keeps_copies_) {
      kill_one_server_at_a_time();
    } else {
      kill_servers(Random{seed, 2});
    }
    std::ranges::stable_sort(plan_.events, {}, &FlockEvent::when);
  }

  std::string run() {
    for (int host = 0; host < plan_.size; ++host) start(host, "");
    for (int host = plan_.hosts; host < hosts_; ++host) start(host, "");
    for (const FlockEvent& event : plan_.events) {
      loop_.at(event.when + 1s, [this, &event] { happen(event); });
    }
    loop_.run(until_over());
    std::ostringstream story;
    story << plan_.size << " hosts, " << name_of(settings_.strategy) << ", "
          << (plan_.encrypted ? "encrypted, " : "") << plan_.weather << "\n";
    for (const FlockEvent& event : plan_.events) story << event;
    story << log_.str() << "trace " << hub_.trace();
    check();
    lives_.clear();
    return story.str();
  }

 private:
  struct Closing {
    Strategy& strategy;
    ~Closing() { strategy.close(); }
  };
  struct Life {
    std::unique_ptr<Generations> job;
    std::unique_ptr<Running> running;
    bool was_member = false;
    bool ends = false;
  };
  static Settings elastic(Settings settings, int workers) {
    settings.elastic.on = true;
    settings.workers = workers;
    if (settings.strategy == StrategyKind::server) {  // a step is as long as its gradient
      settings.optimizer = {};
      settings.optimizer.lr = 1;
      settings.optimizer.momentum = 0;
    }
    return with_members(settings, workers, server_processes(settings));
  }

  // Who is not started again by itself, as workers are by chance, is by its launcher.
  void kill_servers(Random random) {
    for (int host = plan_.hosts; host < hosts_; ++host) {
      for (std::uint64_t kills = random.below(3); kills > 0; --kills) {
        const Time when(random.below(static_cast<std::uint64_t>(Time(kTrouble).count())));
        plan_.events.push_back({FlockEvent::Kind::kill, when, {host}});
        plan_.events.push_back(
            {FlockEvent::Kind::restart, when + Time(random.below(5'000'000'000)), {host}});
        plan_.events.push_back({FlockEvent::Kind::restart, kTrouble + 1s, {host}});
      }
    }
  }
  // What a copy can make up for. A network that is split may keep all servers of a shard from those who
  // go on.
  void kill_one_server_at_a_time() {
    std::erase_if(plan_.events, [](const FlockEvent& event) {
      return event.kind == FlockEvent::Kind::cut || event.kind == FlockEvent::Kind::cut_one_way;
    });
    Time when = 4s;
    for (int host = plan_.hosts; host < hosts_; ++host, when += 9s) {
      plan_.events.push_back({FlockEvent::Kind::kill, when, {host}});
      plan_.events.push_back({FlockEvent::Kind::restart, when + 1s, {host}});
    }
  }

  bool serves(int host) const { return host >= plan_.hosts; }
  Life& life(int host) { return lives_[static_cast<std::size_t>(host)]; }

  void start(int host, const std::string& guest_of) {
    Life& life = this->life(host);
    life = {};
    Job job;
    job.rank = serves(host) ? plan_.size + host - plan_.hosts : host;
    job.size = plan_.size + servers_;
    job.rendezvous = "host 0:29400";
    job.guest_of = guest_of;
    job.secret = "a secret";
    job.timeout = std::chrono::duration_cast<std::chrono::seconds>(kStepTimeout);
    job.encryption.links = plan_.encrypted ? Encryption::Links::all : Encryption::Links::none;
    Council::Rules rules;
    rules.patience = 8s;
    rules.wait = 600s;
    rules.in_step = out_of_data(settings_) != OutOfData::leaves;
    rules.least_servers = std::min(1, servers_);
    const auto role = serves(host) ? Member::Role::server : Member::Role::worker;
    life.job = std::make_unique<Generations>(hub_.host(host), job, rules, role);
    life.running = std::make_unique<Running>(live(host));
  }

  void kill(int host) {
    Life& life = this->life(host);
    if (!life.running) return;
    hub_.kill(host);
    life.running.reset();
    life.job.reset();
    life.ends = true;
  }

  std::string doors() {
    std::string doors;
    for (int host = 0; host < hosts_; ++host) {
      Life& life = this->life(host);
      if (!life.running || life.ends || !life.was_member) continue;
      doors += fmt::format("{}host {}:{}", doors.empty() ? "" : ",", host,
                           life.job->council().self().door.port);
    }
    return doors;
  }

  void happen(const FlockEvent& event) {
    using Kind = FlockEvent::Kind;
    const auto is_among = [&](int host) { return std::ranges::count(event.hosts, host) > 0; };
    switch (event.kind) {
      case Kind::kill:
        if (life(event.hosts[0]).was_member) kill(event.hosts[0]);
        break;
      case Kind::restart:
      case Kind::join: {
        const int host = event.hosts[0];
        const std::string door = doors();
        if (!life(host).running && !door.empty()) start(host, door);
        break;
      }
      case Kind::leave: {
        Life& life = this->life(event.hosts[0]);
        if (life.running && life.was_member && !life.ends) life.job->council().leave();
        break;
      }
      case Kind::cut:
      case Kind::cut_one_way:
        for (int a = 0; a < hosts_; ++a) {
          for (int b = 0; b < hosts_; ++b) {
            if (is_among(a) == is_among(b)) continue;
            if (event.kind != Kind::cut && !is_among(a)) continue;
            hub_.cut(a, b);
            cuts_.emplace_back(a, b);
          }
        }
        break;
      case Kind::heal:
        for (const auto& [a, b] : cuts_) hub_.mend(a, b);
        break;
      case Kind::vanish:
        break;
    }
  }

  Task<> until_over() {
    while (loop_.now() < kEndOfTraining) {
      co_await sleep_until(loop_, loop_.now() + 1s);
      bool somebody_works = false;
      for (const Life& life : lives_)
        somebody_works = somebody_works || (life.running && !life.ends);
      if (!somebody_works && loop_.now() > kTrouble) co_return;
    }
  }

  Task<> live(int host) {
    Life& life = this->life(host);
    try {
      co_await life.job->begin();
      life.was_member = true;
      if (serves(host)) co_await serve(host, *life.job);
      if (!serves(host)) co_await train(host, *life.job);
    } catch (const Error& error) {
      log_ << "host " << host << " ended: " << error.what() << "\n";
    }
    life.ends = true;
    loop_.at(loop_.now() + 1ms, [this, host] { kill(host); });  // its process ends
  }

  // As launch/server_process.cc does it.
  Task<> serve(int host, Generations& job) {
    ServerEstate estate;
    bool is_in = true, is_over = false;
    while (is_in && !is_over) {
      log_ << "host " << host << " serves in generation " << job.roster().generation << "\n";
      try {
        co_await serve_in_generation(job, estate);
        is_over = true;
      } catch (const DeadlineExceeded& error) {
        log_ << "host " << host << ": " << error.what() << "\n";
      } catch (const Error& error) {
        if (job.comm().gone_count() == 0) throw;
        log_ << "host " << host << ": " << error.what() << "\n";
      }
      if (is_over) break;
      Task<bool> next = job.next();
      is_in = co_await next;
    }
  }

  Task<> serve_in_generation(Generations& job, ServerEstate& estate) {
    const Settings settings =
        with_members(settings_, job.roster().workers(), job.roster().servers());
    if (job.roster().generation > 1) {
      co_await within(loop_, loop_.now() + kStepTimeout, "taking over",
                      estate.take_over(block_holders(settings, job.comm()), server_count(settings),
                                       job.roster().generation));
    }
    ServerOptions options = server_options(settings);
    options.timeout = std::chrono::duration_cast<std::chrono::seconds>(kStepTimeout);
    Server server(serving_group(settings, job.comm()), options, estate.past());
    std::exception_ptr failure;
    try {
      co_await server.serve();
    } catch (const Error&) {
      failure = std::current_exception();
    }
    if (!failure) co_return;
    estate.keep(server);
    std::rethrow_exception(failure);
  }

  // As job/worker.h and the trainer do it.
  Task<> train(int host, Generations& job) {
    std::vector<float> weights(kElements, 0), gradients(kElements, 0);
    Estate estate(batches_, averages_gradients(settings_));
    ServerEstate blocks;
    bool is_in = true, is_over = false;
    while (is_in && !is_over) {
      log_ << "host " << host << " is rank " << job.rank() << " of " << job.roster().members.size()
           << " in generation " << job.roster().generation << " at "
           << loop_.now().count() / 1'000'000 << " ms\n";
      try {
        Task<bool> generation = train_in_generation(job, weights, gradients, estate, blocks);
        is_over = co_await generation;
      } catch (const DeadlineExceeded& error) {
        log_ << "host " << host << ": " << error.what() << "\n";
      } catch (const Error& error) {
        if (job.comm().gone_count() == 0) throw;
        log_ << "host " << host << ": " << error.what() << "\n";
      }
      estate.close();
      if (is_over) break;
      std::ranges::fill(gradients, 0.0f);
      job.comm().owe_a_finish(false);
      Task<bool> next = job.next();
      is_in = co_await next;
    }
    if (!is_over) co_return;
    log_ << "host " << host << " has finished with " << weights[0] << "\n";
    results_.push_back(weights[0]);
  }

  Task<bool> train_in_generation(Generations& job, std::vector<float>& weights,
                                 std::vector<float>& gradients, Estate& estate,
                                 ServerEstate& blocks) {
    Comm& comm = job.comm();
    const Settings settings =
        with_members(settings_, job.roster().workers(), job.roster().servers());
    const Replica replica{weights, gradients};
    const Estate::State state{[&] {
                                const auto bytes = std::as_bytes(std::span(weights));
                                return std::vector<std::byte>(bytes.begin(), bytes.end());
                              },
                              [&](ConstBytes bytes) {
                                std::ranges::copy(
                                    bytes, std::as_writable_bytes(std::span(weights)).begin());
                              }};
    const Group heirs = slice_workers(settings, comm, GroupNumber::estate);
    if (job.roster().generation == 1) {
      estate.begin(heirs);
    } else {
      co_await within(loop_, loop_.now() + kStepTimeout, "taking over",
                      estate.take_over(heirs, job.roster().generation, state));
    }
    std::vector<Bucket> buckets =
        make_buckets(replica, std::vector<Range>{{0, kElements}}, 1 << 20);
    Workload workload;
    workload.buckets = ranges_of(buckets);
    workload.batches = estate.batches();
    workload.batches_per_epoch = batches_;
    workload.generation = job.roster().generation;
    workload.blocks = &blocks;
    const std::unique_ptr<Strategy> strategy = make_strategy(settings, comm, workload);
    const Closing closing{*strategy};
    Step::Driver driver;
    driver.wait = [this](const char* what, Task<> task) {
      return within(loop_, loop_.now() + kStepTimeout, what, std::move(task));
    };
    Step step(*strategy, replica, std::move(buckets), 1, driver);
    Task<> starting =
        job.roster().generation == 1 ? strategy->start(replica) : strategy->resume(replica);
    co_await within(loop_, loop_.now() + kStepTimeout, "starting", std::move(starting));
    const std::unique_ptr<Dealer> dealer = make_dealer(settings, comm, workload, *strategy);
    const auto n = static_cast<float>(settings.workers);
    while (true) {
      Task<std::optional<std::uint64_t>> dealing = dealer->next();
      const std::optional<std::uint64_t> turn = co_await dealing;
      if (!turn) break;
      const std::optional<std::uint64_t> batch = estate.at(*turn);
      co_await sleep_until(loop_, loop_.now() + 200ms);
      if (batch) std::ranges::fill(gradients, gradient_of(*batch) * n);
      estate.took();
      Task<bool> taking = step.take([&] {
        for (std::size_t i = 0; i < kElements; ++i) weights[i] += gradients[i];
        if (batch) ++applied_[*batch];
        estate.did();
      });
      co_await taking;
      estate.did();
      if (batch && strategy->updates_weights()) {
        ++applied_[*batch];
        acknowledged_ += gradient_of(*batch) * (averages_gradients(settings) ? 1 : n);
      }
      job.council().note_step(estate.done());
      if (job.council().is_due() || comm.gone_count() > 0) co_return false;
    }
    co_await with_patience(comm, std::chrono::duration_cast<std::chrono::seconds>(kStepTimeout),
                           "finishing", strategy->finish(replica));
    co_return true;
  }

  void check() {
    for (int host = 0; host < hosts_; ++host) {
      EXPECT_TRUE(!life(host).running || life(host).ends) << "host " << host << " is still at it";
    }
    if (results_.empty()) return;  // nobody was left
    if (settings_.strategy == StrategyKind::server) {
      check_servers_results();
    } else if (averages_gradients(settings_)) {
      float sum = 0;
      for (std::uint64_t batch = 0; batch < batches_; ++batch) sum += gradient_of(batch);
      for (float result : results_) {
        EXPECT_NEAR(result, sum, 0.3) << "not each batch was learned from once";
      }
    } else if (out_of_data(settings_) == OutOfData::leaves) {
      // Who has done its share helps others with theirs, whatever they are at: only the number counts.
      std::uint64_t applied = 0;
      for (const auto& [batch, times] : applied_) applied += static_cast<std::uint64_t>(times);
      EXPECT_GE(applied, batches_);
    } else if (settings_.mix.rule != MixingSettings::Rule::sampled) {  // where some rest
      for (std::uint64_t batch = 0; batch < batches_; ++batch) {
        EXPECT_GE(applied_[batch], 1) << "batch " << batch << " was left out";
      }
    }
  }

  // A step that some blocks had when the generation ended, and nobody knew of, is done again.
  void check_servers_results() {
    for (float result : results_) {
      EXPECT_EQ(result, results_[0]) << "not all have the same model";
    }
    std::uint64_t applied = 0;
    for (const auto& [batch, times] : applied_) applied += static_cast<std::uint64_t>(times);
    const double share = settings_.server.gate.epoch_share;
    EXPECT_GE(static_cast<double>(applied), share * static_cast<double>(batches_) - 1);
    if (averages_gradients(settings_)) {
      double all_batches = 0;
      for (std::uint64_t batch = 0; batch < batches_; ++batch) all_batches += gradient_of(batch);
      EXPECT_GE(-results_[0], all_batches - 0.3) << "a batch was left out";
    }
    if (keeps_copies_) {
      EXPECT_GE(-results_[0], acknowledged_ - 0.3) << "what was acknowledged was lost";
    }
  }

  FlockPlan plan_;
  Settings settings_;
  bool keeps_copies_;
  int servers_, hosts_;
  std::uint64_t batches_;
  SimLoop loop_;
  Switch hub_;
  std::vector<std::pair<int, int>> cuts_;
  std::vector<Life> lives_;
  std::map<std::uint64_t, int> applied_;
  double acknowledged_ = 0;  // by servers: the sum of gradients
  std::vector<float> results_;
  std::ostringstream log_;
};

class ElasticSystems : public ::testing::TestWithParam<std::string> {};

TEST_P(ElasticSystems, ComesToItsEndWithEveryBatch) {
  each_seed_twice_alike(12, [](std::uint64_t seed) {
    Settings settings;
    read_settings(find_system(GetParam()).toml, GetParam(), settings);
    return TrainingWorld(seed, settings).run();
  });
}

// Nobody's weights but the servers' have what others have pushed.
TEST(ElasticSeeds, CopiesKeepAllThatWasAcknowledged) {
  each_seed_twice_alike(12, [](std::uint64_t seed) {
    Settings settings;
    settings.strategy = StrategyKind::server;
    settings.server.gate.kind = GateSettings::Kind::async;
    settings.server.servers = 3;
    settings.server.replicas = 2;
    return TrainingWorld(seed, settings).run();
  });
}

INSTANTIATE_TEST_SUITE_P(Seeds, ElasticSystems,
                         ::testing::Values("horovod", "pairwise", "huawei-ring", "exponential",
                                           "d-psgd", "sgp", "sparknet", "local-sgd", "diloco",
                                           "easgd", "gosgd", "ad-psgd", "tree-easgd", "mpca-sgd",
                                           "deeplearning4j", "fedavg", "flock", "eamsgd", "bigdl",
                                           "caffeonspark", "distbelief", "firecaffe", "mxnet",
                                           "parameter-server", "petuum", "project-adam",
                                           "tensorflow", "tensorflow-backup"),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace starling
