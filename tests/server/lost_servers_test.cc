// Servers that are lost at any time, over many seeds: every push that was acknowledged is in the
// shard once, and so is every one that its worker has had no answer to and has sent again.
//
// Each worker's n-th push of a block adds 2^n to an element that is the worker's own, so that the
// element tells which pushes it has seen, and whether one twice.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <list>
#include <sstream>

#include "base/error.h"
#include "base/random.h"
#include "server/clerk_client.h"
#include "server/client.h"
#include "server/server.h"
#include "sim/cluster.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

// How a worker goes about a step.
enum class Manner { at_once, push_then_pull, mostly_push, two_under_way, in_two_phases };

struct Scenario {
  explicit Scenario(std::uint64_t s) : seed(s) {
    Random random{seed, 0x5e72};
    const auto draw = [&](int least, int most) {
      return least + static_cast<int>(random.below(static_cast<std::uint64_t>(most - least + 1)));
    };
    using enum GateSettings::Kind;
    const GateSettings::Kind gates[] = {bsp, ssp, async, value, async};
    options.gate.kind = gates[draw(0, 4)];
    const bool in_step = options.gate.kind == bsp;
    options.workers = in_step ? 1 << draw(0, 2) : draw(1, 5);  // so that a mean is exact
    options.gate.delay_bound = draw(1, 3);
    options.gate.value_bound = 1 << 22;  // which holds nothing back, but looks at what was read
    options.chain.first_server = options.workers;
    options.chain.servers = draw(2, 5);
    options.chain.replicas = draw(2, std::min(4, options.chain.servers));
    options.optimizer.lr = 1;
    if (!in_step) options.clerk.mode = Clerk::Mode::whoever_is_free;
    const bool two_phases = options.gate.kind == value;
    manner = two_phases ? Manner::in_two_phases : static_cast<Manner>(draw(0, 3));
    units = in_step ? 8 * static_cast<std::uint64_t>(options.workers) : 16;
    keys_of_a_server = draw(1, 3);
    if (random.below(3) == 0) {
      options.chain.newcomer = draw(0, options.chain.servers - 1);
      newcomer_at = Time(draw(0, 15) * 1ms);
    }
    const int crashes = draw(0, options.chain.replicas - 1);
    while (static_cast<int>(faults.crashes.size()) < crashes) {
      const int server = options.workers + draw(0, options.chain.servers - 1);
      double when = random.uniform() * (random.below(4) == 0 ? 3e6 : 8e7);
      // Nobody else may be lost before a newcomer has got everything.
      if (options.chain.newcomer >= 0)
        when = static_cast<double>(newcomer_at.count()) + 15e6 + 4e7 * random.uniform();
      if (!crashes_of(server)) faults.crashes.push_back({server, Time(std::llround(when))});
    }
    const bool can_do_without = !in_step && options.gate.kind != ssp;
    if (can_do_without && options.workers > 2 && random.below(3) == 0) {
      faults.crashes.push_back({options.workers - 1, Time(draw(1, 60) * 1ms)});
    }
    faults.seed = seed;
  }

  bool crashes_of(int rank) const {
    return std::ranges::count(faults.crashes, rank, &Faults::Moment::rank) > 0;
  }

  std::uint64_t seed;
  ServerOptions options;
  Time newcomer_at{0};
  Manner manner{};
  std::uint64_t units = 0;
  int keys_of_a_server = 1;
  Faults faults;
};

class LostServers {
 public:
  explicit LostServers(const Scenario& scenario)
      : scenario_(scenario),
        cluster_(scenario.options.workers + scenario.options.chain.servers, network(),
                 scenario.faults) {
    const auto workers = static_cast<std::size_t>(scenario.options.workers);
    for (int server = 0; server < scenario.options.chain.servers; ++server) {
      for (int i = 0; i < scenario.keys_of_a_server; ++i) {
        const std::size_t begin = keys_.size() * workers;
        keys_.push_back({server, {begin, begin + workers}});
      }
    }
    finals_.resize(workers);
    pushed_.resize(workers);
    acknowledged_.assign(workers, std::vector<std::uint64_t>(keys_.size()));
  }

  void run() {
    const auto errors = cluster_.live([this](Comm& comm) {
      return comm.rank() < scenario_.options.workers ? work(comm) : serve(comm);
    });
    for (std::size_t rank = 0; rank < errors.size(); ++rank) {
      if (!errors[rank]) continue;
      try {
        std::rethrow_exception(errors[rank]);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    }
    check();
  }

  // All that a run has come to, so that another can be compared.
  std::string outcome() const {
    std::ostringstream out;
    out << cluster_time() << ":";
    for (const auto& weights : finals_) {
      for (float weight : weights) out << weight << ",";
    }
    return out.str();
  }

 private:
  static Network network() {
    Network network;
    network.standard = {1e7, 100us};
    return network;
  }
  std::int64_t cluster_time() const { return const_cast<Cluster&>(cluster_).loop().now().count(); }

  Task<> serve(Comm& comm) {
    if (scenario_.options.chain.is_newcomer(comm.rank())) {
      Group(comm).contain_losses();  // that come before it does
      co_await sleep_until(comm.loop(), scenario_.newcomer_at);
    }
    Server server(comm, scenario_.options);
    co_await server.serve();
  }

  Task<> work(Comm& comm) {
    const auto worker = static_cast<std::size_t>(comm.rank());
    Group(comm).contain_losses();
    const Chain& chain = scenario_.options.chain;
    ServerClient client(comm,
                        {.first_server = chain.first_server,
                         .servers = chain.servers,
                         .replicas = chain.replicas,
                         .newcomer = chain.newcomer},
                        keys_);
    ClerkClient clerk(comm, chain);
    Random random{scenario_.seed, worker, 0x3041};
    std::vector<float> weights(keys_.size() * workers());
    co_await client.hello({scenario_.units, scenario_.units});
    for (std::size_t key = 0; key < keys_.size() && worker == 0; ++key) {
      co_await client.put(key, of_key(weights, key));
    }
    for (std::size_t key = 0; key < keys_.size(); ++key) {
      co_await pull(client, key, weights, worker, 0);
    }
    for (std::uint64_t clock = 0;; ++clock) {
      Task<std::uint64_t> asking = clerk.next();
      const std::uint64_t unit = co_await asking;
      if (unit == Clerk::kNoMore) break;
      units_done_.push_back(unit);
      const auto computing = Time(static_cast<std::int64_t>(random.uniform() * 5e6));
      co_await sleep_until(comm.loop(), comm.loop().now() + computing);
      co_await step(client, worker, clock, weights);
    }
    Task<ServerReport> done = client.done();
    co_await done;
    for (std::size_t key = 0; key < keys_.size(); ++key) {
      co_await pull(client, key, weights, worker, pushed_[worker]);
    }
    finals_[worker] = weights;
    co_await client.bye();
  }

  Task<> step(ServerClient& client, std::size_t worker, std::uint64_t clock,
              std::vector<float>& weights) {
    std::vector<float> gradient(workers());
    const bool means = scenario_.options.gate.kind == GateSettings::Kind::bsp;
    gradient[worker] =
        -std::exp2(static_cast<float>(clock)) * (means ? static_cast<float>(workers()) : 1.0f);
    if (scenario_.manner == Manner::two_under_way && clock % 2 == 0) {
      co_return;  // the next step does both, if there is one
    }
    pushed_[worker] = clock + 1;
    std::list<Running> under_way;
    for (std::size_t key = 0; key < keys_.size(); ++key) {
      under_way.emplace_back(step(client, worker, clock, key, weights, gradient));
    }
    for (Running& each : under_way) co_await each;
    if (scenario_.manner != Manner::in_two_phases) co_return;
    for (std::size_t key = 0; key < keys_.size(); ++key) {
      co_await pull(client, key, weights, worker, clock + 1);
    }
  }

  Task<> step(ServerClient& client, std::size_t worker, std::uint64_t clock, std::size_t key,
              std::vector<float>& weights, std::span<const float> gradient) {
    switch (scenario_.manner) {
      case Manner::two_under_way: {
        std::vector<float> before(gradient.begin(), gradient.end()), elsewhere(workers());
        for (float& each : before) each /= 2;
        Running first(push_pull(client, worker, clock - 1, key, elsewhere, before));
        Running second(push_pull(client, worker, clock, key, of_key(weights, key), gradient));
        co_await first;
        co_await second;
        break;
      }
      case Manner::at_once:
        co_await push_pull(client, worker, clock, key, of_key(weights, key), gradient);
        break;
      case Manner::in_two_phases:
        co_await client.push(key, gradient, clock);
        co_await client.settle(key);
        acknowledged_[worker][key] = clock + 1;
        break;
      default:
        co_await client.push(key, gradient, clock);
        if (scenario_.manner == Manner::push_then_pull || clock % 3 == 2) {
          co_await pull(client, key, weights, worker, clock + 1);
        }
    }
  }

  Task<> push_pull(ServerClient& client, std::size_t worker, std::uint64_t clock, std::size_t key,
                   std::span<float> into, std::span<const float> gradient) {
    Task<WeightsHeader> both = client.push_pull(key, gradient, clock, into);
    client.adopt(key, co_await both);
    acknowledged_[worker][key] = clock + 1;
    EXPECT_EQ(into[worker], all_up_to(clock + 1)) << "worker " << worker << ", key " << key;
  }

  // What a worker reads has all of its own pushes, of which there are so many.
  Task<> pull(ServerClient& client, std::size_t key, std::vector<float>& weights,
              std::size_t worker, std::uint64_t pushes) {
    Task<WeightsHeader> pull = client.pull(key, of_key(weights, key));
    client.adopt(key, co_await pull);
    acknowledged_[worker][key] = pushes;
    EXPECT_EQ(of_key(weights, key)[worker], all_up_to(pushes))
        << "worker " << worker << ", key " << key;
  }

  // Nobody's push is missing, and none is there twice.
  void check() const {
    for (std::size_t worker = 0; worker < workers(); ++worker) {
      if (scenario_.crashes_of(static_cast<int>(worker)) && finals_[worker].empty()) continue;
      ASSERT_FALSE(finals_[worker].empty()) << "worker " << worker << " did not come to the end";
      for (std::size_t key = 0; key < keys_.size(); ++key) {
        for (std::size_t of = 0; of < workers(); ++of) check(worker, key, of);
      }
    }
    if (!scenario_.crashes_of(scenario_.options.workers - 1)) {
      EXPECT_EQ(units_done_.size(), scenario_.units);
    }
    std::vector<std::uint64_t> units = units_done_;
    std::ranges::sort(units);
    EXPECT_EQ(std::ranges::adjacent_find(units), units.end()) << "a unit was handed out twice";
  }
  void check(std::size_t worker, std::size_t key, std::size_t of) const {
    const float found = finals_[worker][key * workers() + of];
    const std::uint64_t least = acknowledged_[of][key];
    for (std::uint64_t pushes = least; pushes <= pushed_[of]; ++pushes) {
      if (found == all_up_to(pushes)) return;
    }
    ADD_FAILURE() << "worker " << worker << " has " << found << " of worker " << of << " in block "
                  << key << ", who pushed " << pushed_[of] << " times, " << least
                  << " acknowledged";
  }

  std::size_t workers() const { return static_cast<std::size_t>(scenario_.options.workers); }
  static float all_up_to(std::uint64_t pushes) { return std::exp2(static_cast<float>(pushes)) - 1; }
  std::span<float> of_key(std::vector<float>& weights, std::size_t key) const {
    return std::span(weights).subspan(keys_[key].range.begin, workers());
  }

  const Scenario& scenario_;
  Cluster cluster_;
  std::vector<Key> keys_;
  std::vector<std::vector<float>> finals_;
  std::vector<std::uint64_t> pushed_, units_done_;
  std::vector<std::vector<std::uint64_t>> acknowledged_;  // by worker and key
};

TEST(LostServersSeeds, LoseNoAcknowledgedPushAndApplyNoneTwice) {
  const char* one = std::getenv("STARLING_SEED");
  const char* many = std::getenv("STARLING_SEEDS");
  const std::uint64_t first = one == nullptr ? 1 : std::strtoull(one, nullptr, 10);
  const std::uint64_t count = one != nullptr    ? 1
                              : many == nullptr ? 400
                                                : std::strtoull(many, nullptr, 10);
  for (std::uint64_t seed = first; seed < first + count && !testing::Test::HasFailure(); ++seed) {
    const Scenario scenario(seed);
    std::ostringstream what;
    what << scenario.options.workers << " workers, " << scenario.options.chain.servers
         << " servers, " << scenario.options.chain.replicas << " replicas, newcomer "
         << scenario.options.chain.newcomer << " at " << scenario.newcomer_at.count()
         << " ns, gate " << static_cast<int>(scenario.options.gate.kind) << ", manner "
         << static_cast<int>(scenario.manner) << ", " << scenario.faults;
    SCOPED_TRACE(what.str());
    LostServers run(scenario), again(scenario);
    run.run();
    again.run();
    EXPECT_EQ(run.outcome(), again.outcome());
  }
}

}  // namespace
}  // namespace starling
