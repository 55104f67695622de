// Replicated shards: what workers were told is safe, whichever servers are lost, and when.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "base/random.h"
#include "plan/simulated_training.h"
#include "server/client.h"
#include "server/server.h"
#include "sim/cluster.h"
#include "tests/server/expect_all_well.h"

namespace starling {
namespace {

using namespace std::chrono_literals;
using GateKind = GateSettings::Kind;

Settings replicated(int workers, GateKind gate, int servers, int replicas) {
  Settings settings;
  settings.strategy = StrategyKind::server;
  settings.workers = workers;
  settings.server.gate.kind = gate;
  settings.server.servers = servers;
  settings.server.replicas = replicas;
  settings.optimizer.momentum = 0;
  return settings;
}

SimulatedTraining short_training(Settings settings, std::uint64_t seed = 1) {
  SimulatedTraining training;
  training.settings = std::move(settings);
  training.noise = 0.5;
  training.seed = seed;
  training.jitter = 0.5;
  training.elements = 37;
  training.buckets = 3;
  training.network.standard = {1e7, 100us};
  training.batches_per_epoch = 10 * static_cast<std::uint64_t>(training.settings.workers);
  training.batches = 2 * training.batches_per_epoch;
  return training;
}

// Workers in step do the same maths with and without replicas, and with and without losses.
TEST(Replicas, DoNotChangeABitOfWhatWorkersInStepLearn) {
  for (const auto optimizer : {OptimizerSettings::Kind::sgd, OptimizerSettings::Kind::nesterov,
                               OptimizerSettings::Kind::adagrad, OptimizerSettings::Kind::adam}) {
    for (int servers : {2, 3, 5}) {
      Settings settings = replicated(3, GateKind::bsp, servers, 1);
      settings.optimizer.kind = optimizer;
      if (optimizer == OptimizerSettings::Kind::nesterov) settings.optimizer.momentum = 0.9;
      const SimulatedResult plain = simulate(short_training(settings));
      expect_all_well(plain);
      for (int replicas = 2; replicas <= std::min(3, servers); ++replicas) {
        SCOPED_TRACE(testing::Message() << fmt::format("{}", optimizer) << ", " << servers
                                        << " servers, " << replicas);
        settings.server.replicas = replicas;
        SimulatedTraining training = short_training(settings);
        const SimulatedResult whole = simulate(training);
        expect_all_well(whole);
        EXPECT_EQ(whole.weights, plain.weights);
        for (int lost = 1; lost < replicas; ++lost) {
          training.faults.crashes.push_back({3 + lost - 1, Time(60ms + lost * 31ms)});
        }
        const SimulatedResult some = simulate(training);
        expect_all_well(some);
        EXPECT_EQ(some.weights, plain.weights);
        EXPECT_EQ(some.server->updates, plain.server->updates);
      }
    }
  }
}

// Every system of servers, with any of them lost at any time, does all of its work once.
TEST(Replicas, LoseNoUnitOfWorkWithTheirClerk) {
  for (const char* gate : {"bsp", "ssp", "async", "value", "quorum", "softsync"}) {
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
      SCOPED_TRACE(testing::Message() << gate << ", seed " << seed);
      Random random{seed, 0x0c1e};
      const int servers = 2 + static_cast<int>(random.below(3));
      Settings settings = replicated(4, named<GateKind>(gate), servers, 2);
      if (seed % 3 == 0) settings.server.gate.epoch_share = 0.7;
      SimulatedTraining training = short_training(settings, seed);
      const SimulatedResult whole = simulate(training);
      const int lost = 4 + static_cast<int>(random.below(static_cast<std::uint64_t>(servers)));
      const double when = random.uniform() * static_cast<double>(whole.end.count());
      training.faults.crashes = {{lost, Time(std::llround(when))}};
      const SimulatedResult some = simulate(training);
      expect_all_well(some);
      std::vector<std::uint64_t> units;
      for (const auto& each : some.order) units.insert(units.end(), each.begin(), each.end());
      std::ranges::sort(units);
      EXPECT_EQ(std::ranges::adjacent_find(units), units.end()) << "a unit was done twice";
      if (settings.server.gate.epoch_share == 1) {
        EXPECT_EQ(units.size(), training.batches);
      }
      for (const auto& weights : some.weights) EXPECT_EQ(weights, some.weights[0]);
      if (gate == std::string("bsp")) {
        EXPECT_EQ(some.weights, whole.weights);
      }
    }
  }
}

std::uint64_t blocks_of(const SimulatedTraining& training) {
  std::vector<Range> buckets;
  const auto count = static_cast<std::size_t>(training.buckets);
  for (std::size_t i = 0; i < count; ++i) buckets.push_back(part(training.elements, count, i));
  return cut_into_keys(training.elements, training.settings.server.servers, buckets, 1 << 20)
      .size();
}

// What workers may do with servers beside plain steps, with each server lost at some time.
TEST(Replicas, ServeAllWaysOfPushingAndFetching) {
  const std::vector<std::pair<const char*, std::function<void(Settings&)>>> ways = {
      {"lag", [](Settings& s) { s.server.lag = 2; }},
      {"eager", [](Settings& s) { s.server.eager = true; }},
      {"seldom", [](Settings& s) { s.server.push_every = 2, s.server.fetch_every = 5; }},
      {"group", [](Settings& s) { s.server.group = 2; }},
      {"top-k", [](Settings& s) { s.mix.codec.kind = CodecSettings::Kind::top_k; }},
      {"quantized", [](Settings& s) { s.mix.codec.kind = CodecSettings::Kind::quantized; }},
      {"compensate",
       [](Settings& s) { s.server.staleness.kind = StalenessRule::Kind::compensate; }},
      {"adagrad", [](Settings& s) { s.optimizer.kind = OptimizerSettings::Kind::adagrad; }},
  };
  for (const auto& [name, change] : ways) {
    for (const char* gate : {"ssp", "async"}) {
      for (int lost = 4; lost < 7; ++lost) {
        SCOPED_TRACE(testing::Message() << name << ", " << gate << ", without " << lost);
        Settings settings = replicated(4, named<GateKind>(gate), 3, 2);
        change(settings);
        SimulatedTraining training = short_training(settings);
        training.faults.crashes = {{lost, Time(37ms + lost * 5ms)}};
        const SimulatedResult result = simulate(training);
        expect_all_well(result);
        EXPECT_EQ(result.all_batches(), training.batches);
        for (const auto& weights : result.weights) EXPECT_EQ(weights, result.weights[0]);
        std::uint64_t pushes = 0;
        for (std::uint64_t steps : result.batches) {
          pushes += steps / static_cast<std::uint64_t>(settings.server.push_every);
        }
        pushes /= static_cast<std::uint64_t>(settings.server.group);
        EXPECT_EQ(result.server->applied(), pushes * blocks_of(training)) << "each once";
      }
    }
  }
}

TEST(Replicas, OnWorkersGoOnWithoutOneWhereTheGateDoes) {
  for (int lost = 0; lost < 4; ++lost) {
    Settings settings = replicated(4, GateKind::async, 0, 2);
    settings.server.placement = ServerSettings::Placement::workers;
    SimulatedTraining training = short_training(settings);
    training.faults.crashes = {{lost, Time(61ms)}};
    const SimulatedResult result = simulate(training);
    expect_all_well(result);
    EXPECT_GE(result.all_batches(), training.batches - 4);
  }
}

TEST(Replicas, NameTheWorkerThatTheGateNeeds) {
  for (int lost = 0; lost < 3; ++lost) {
    SimulatedTraining training = short_training(replicated(3, GateKind::bsp, 2, 2));
    training.faults.crashes = {{lost, Time(61ms)}};
    const SimulatedResult result = simulate(training);
    for (int rank = 0; rank < 5; ++rank) {
      if (rank == lost) continue;
      ASSERT_TRUE(result.errors[static_cast<std::size_t>(rank)]);
      try {
        std::rethrow_exception(result.errors[static_cast<std::size_t>(rank)]);
      } catch (const PeerLost& error) {
        EXPECT_EQ(error.rank(), lost) << error.what();
      }
    }
  }
}

TEST(Replicas, SayWhoseLastCopyIsLost) {
  SimulatedTraining training = short_training(replicated(2, GateKind::async, 3, 2));
  training.faults.crashes = {{2, Time(40ms)}, {3, Time(60ms)}};
  const SimulatedResult result = simulate(training);
  for (std::size_t worker : {0u, 1u}) {
    ASSERT_TRUE(result.errors[worker]);
    try {
      std::rethrow_exception(result.errors[worker]);
    } catch (const std::exception& error) {
      EXPECT_STREQ(error.what(),
                   "rank 3 was lost, which had the last copy of shard 0; more replicas can do "
                   "without more servers");
    }
  }
}

// Who is told differences, in few elements each, catches up with the weights in the end: also if the
// server that told it is lost while it computes, and the next one knows less of what it was told.
TEST(Replicas, TellWorkersWhatTheCodesOfALostServerLeftOut) {
  constexpr std::size_t kElements = 1000;
  const ServerCodec codec{{.kind = CodecSettings::Kind::top_k, .share = 0.05}, 1};
  Cluster cluster(3);
  cluster.crash(1, 50ms);
  const auto errors = cluster.live([&](Comm& comm) -> Task<> {
    return [](Comm& rank, ServerCodec of) -> Task<> {
      if (rank.rank() > 0) {
        ServerOptions options;
        options.chain = {1, 2, 2};
        options.codec = of;
        Server server(rank, options);
        co_await server.serve();
        co_return;
      }
      Group(rank).contain_losses();
      ServerClient client(rank, {.first_server = 1, .servers = 2, .codec = of, .replicas = 2},
                          {{0, {0, kElements}}});
      std::vector<float> told(kElements), whole(kElements), gradient(kElements, 1.0f);
      co_await client.hello({50, 50});
      co_await client.put(0, told);
      Task<WeightsHeader> first = client.pull_whole(0, told);
      co_await first;
      for (std::uint64_t clock = 0; clock < 30; ++clock) {  // till nothing is left out of it
        co_await client.push(0, gradient, clock);
        std::ranges::fill(gradient, 0.0f);
      }
      for (int i = 0; i < 50; ++i) {
        Task<WeightsHeader> difference = client.pull(0, told);
        co_await difference;
        if (i == 0) co_await sleep_until(rank.loop(), rank.loop().now() + 100ms);
      }
      Task<WeightsHeader> last = client.pull_whole(0, whole);
      co_await last;
      for (std::size_t i = 0; i < kElements; ++i) EXPECT_NEAR(told[i], whole[i], 1e-4) << i;
      Task<ServerReport> done = client.done();
      co_await done;
      co_await client.bye();
    }(comm, codec);
  });
  for (const std::exception_ptr& error : errors) EXPECT_EQ(error, nullptr);
}

TEST(Replicas, AreCountedByPurpose) {
  Cluster cluster(3);
  ServerOptions options;
  options.chain = {1, 2, 2};
  std::uint64_t sent = 0;
  cluster.run([&](Comm& comm) -> Task<> {
    return [](Comm& rank, ServerOptions of, std::uint64_t& bytes) -> Task<> {
      if (rank.rank() > 0) {
        Server server(rank, of);
        co_await server.serve();
        bytes += rank.ledger().total(Direction::sent, Purpose::replication).payload;
        co_return;
      }
      ServerClient client(rank, {.first_server = 1, .servers = 2, .replicas = 2},
                          {{0, {0, 1000}}, {1, {1000, 1001}}});
      std::vector<float> weights(1001), gradient(1001, 1.0f);
      co_await client.hello({1, 1});
      for (std::size_t key = 0; key < 2; ++key) {
        const Range range = client.keys()[key].range;
        const auto part = std::span(weights).subspan(range.begin, range.size());
        co_await client.put(key, part);
        Task<WeightsHeader> both =
            client.push_pull(key, std::span(gradient).subspan(range.begin, range.size()), 0, part);
        co_await both;
      }
      Task<ServerReport> done = client.done();
      co_await done;
      co_await client.bye();
    }(comm, options, sent);
  });
  EXPECT_GT(sent, 2 * 1001 * sizeof(float)) << "first weights and gradients";
  EXPECT_LT(sent, 2 * 1001 * sizeof(float) + 2000);
}

}  // namespace
}  // namespace starling
