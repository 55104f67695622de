#include "plan/elastic_training.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "plan/simulated_flock.h"
#include "runtime/patience.h"
#include "runtime/race.h"
#include "server/server_estate.h"
#include "strategy/dealer.h"
#include "strategy/estate.h"
#include "strategy/grid.h"
#include "strategy/registry.h"
#include "strategy/server_plan.h"
#include "strategy/step.h"

namespace starling {

namespace {

using namespace std::chrono_literals;

constexpr Time kStepTimeout = 20s, kTimeToPart = 5s;
constexpr std::size_t kElements = 23;

Council::Rules rules_for(const ElasticTraining& training) {
  Council::Rules rules;
  rules.patience = 8s;
  rules.wait = 600s;
  rules.in_step = out_of_data(training.settings) != OutOfData::leaves;
  rules.least_servers = std::min(1, training.servers);
  return rules;
}

class ElasticWorld {
 public:
  ElasticWorld(const ElasticTraining& training, SimulatedFlock::Witness witness)
      : settings_(training.settings),
        batches_(training.batches),
        deadline_(training.deadline),
        faults_(training.plan.faults),
        flock_(
            training.plan, training.servers, training.seed, rules_for(training),
            [this](int host, Generations& job) {
              return flock_.serves(host) ? serve(host, job) : train(host, job);
            },
            std::move(witness)),
        loop_(flock_.loop()) {}

  ElasticResult run() {
    flock_.run(until_over());
    for (int host = 0; host < flock_.hosts(); ++host) {
      if (flock_.is_up(host)) result_.still_at_it.push_back(host);
    }
    result_.story = flock_.story();
    return std::move(result_);
  }

 private:
  struct Closing {
    Strategy& strategy;
    ~Closing() { strategy.close(); }
  };

  Task<> until_over() {
    while (loop_.now() < deadline_) {
      co_await sleep_until(loop_, loop_.now() + 1s);
      bool somebody_works = false;
      for (int host = 0; host < flock_.hosts(); ++host) {
        somebody_works = somebody_works || flock_.is_up(host);
      }
      if (!somebody_works && loop_.now() > FlockPlan::kTrouble) co_return;
    }
  }

  // As launch/server_process.cc does it.
  Task<> serve(int host, Generations& job) {
    ServerEstate estate;
    bool is_in = true, is_over = false;
    while (is_in && !is_over) {
      flock_.tell(fmt::format("host {} serves in generation {}", host, job.roster().generation));
      try {
        co_await serve_in_generation(job, estate);
        is_over = true;
      } catch (const Error& error) {
        if (!job.can_go_on_after(error)) throw;
        flock_.tell(fmt::format("host {}: {}", host, error.what()));
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
      co_await with_patience(job.comm(), kStepTimeout, "taking over",
                             estate.take_over(block_holders(settings, job.comm()),
                                              server_count(settings), job.roster().generation));
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
    float share = 0;
    while (is_in && !is_over) {
      flock_.tell(fmt::format("host {} is rank {} of {} in generation {} at {} ms", host,
                              job.rank(), job.roster().members.size(), job.roster().generation,
                              loop_.now().count() / 1'000'000));
      try {
        Task<bool> generation =
            train_in_generation(host, job, weights, gradients, estate, blocks, share);
        is_over = co_await generation;
      } catch (const Error& error) {
        if (!job.can_go_on_after(error)) throw;
        flock_.tell(fmt::format("host {}: {}", host, error.what()));
      }
      estate.close();
      if (is_over) break;
      std::ranges::fill(gradients, 0.0f);
      job.comm().owe_a_finish(false);
      Task<bool> next = job.next();
      is_in = co_await next;
    }
    if (!is_over) co_return;
    flock_.tell(fmt::format("host {} has finished with {}", host, weights[0]));
    result_.models.push_back({job.roster(), weights[0], share});
    co_await job.council().tell_end();
  }

  Task<bool> train_in_generation(int host, Generations& job, std::vector<float>& weights,
                                 std::vector<float>& gradients, Estate& estate,
                                 ServerEstate& blocks, float& share) {
    Comm& comm = job.comm();
    Loop& loop = comm.loop();
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
      co_await with_patience(comm, kStepTimeout, "taking over",
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
    driver.wait = [&loop](const char* what, Task<> task) {
      return within(loop, loop.now() + kStepTimeout, what, std::move(task));
    };
    Step step(*strategy, replica, std::move(buckets), 1, driver);
    Task<> starting =
        job.roster().generation == 1 ? strategy->start(replica) : strategy->resume(replica);
    co_await with_patience(comm, kStepTimeout, "starting", std::move(starting));
    const std::unique_ptr<Dealer> dealer = make_dealer(settings, comm, workload, *strategy);
    const auto n = static_cast<float>(settings.workers);
    while (true) {
      Task<std::optional<std::uint64_t>> dealing = dealer->next();
      const std::optional<std::uint64_t> turn = co_await dealing;
      if (!turn) break;
      const std::optional<std::uint64_t> batch = estate.at(*turn);
      co_await sleep_until(loop, loop.now() + faults_.computing(host, loop_.now(), 200ms));
      if (batch) std::ranges::fill(gradients, gradient_of(*batch) * n);
      estate.took();
      Task<bool> taking = step.take([&] {
        for (std::size_t i = 0; i < kElements; ++i) weights[i] += gradients[i];
        if (batch) ++result_.applied[*batch];
        estate.did();
      });
      co_await taking;
      estate.did();
      if (batch && strategy->updates_weights()) {
        ++result_.applied[*batch];
        result_.acknowledged += gradient_of(*batch) * (averages_gradients(settings) ? 1 : n);
      }
      job.council().note_step(estate.done());
      const bool is_due = job.council().is_due();
      if (is_due) {
        Task<int> parting = race(estate.part(job.roster(), job.council().roster()),
                                 sleep_until(loop, loop.now() + kTimeToPart));
        co_await parting;
      }
      if (is_due || comm.gone_count() > 0) co_return false;
    }
    co_await with_patience(comm, kStepTimeout, "finishing", strategy->finish(replica));
    share = strategy->final_share();
    co_return true;
  }

  Settings settings_;
  std::uint64_t batches_;
  Time deadline_;
  Faults faults_;
  ElasticResult result_;
  SimulatedFlock flock_;
  SimLoop& loop_;
};

}  // namespace

float gradient_of(std::uint64_t batch) { return static_cast<float>(batch * 7 % 11 + 1); }

ElasticTraining elastic_training(const Settings& settings, FlockPlan plan, std::uint64_t seed) {
  ElasticTraining training{settings, std::move(plan), seed};
  Settings& its = training.settings;
  its.elastic.on = true;
  its.workers = training.plan.size;
  if (its.strategy == StrategyKind::server) {  // a step is as long as its gradient
    its.optimizer = {};
    its.optimizer.lr = 1;
    its.optimizer.momentum = 0;
  }
  its = with_members(its, its.workers, server_processes(its));
  training.servers = server_processes(its);
  training.batches = static_cast<std::uint64_t>(its.workers) * 60;
  return training;
}

ElasticResult simulate(const ElasticTraining& training,
                       const std::function<void(const std::string& event)>& witness) {
  return ElasticWorld(training, witness).run();
}

}  // namespace starling
