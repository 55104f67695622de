// The value bound: that it holds, what exactly it holds back, and that nobody waits forever.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>

#include "base/error.h"
#include "plan/simulated_training.h"
#include "tests/server/expect_all_well.h"
#include "tests/server/scripted_workers.h"

namespace starling {
namespace {

using namespace std::chrono_literals;
using Kind = Act::Kind;

SimulatedTraining training_of(int workers, int servers, int buckets, std::uint64_t seed) {
  SimulatedTraining training;
  training.settings.strategy = StrategyKind::server;
  training.settings.server.gate.kind = GateSettings::Kind::value;
  training.settings.workers = workers;
  training.settings.server.servers = servers;
  training.settings.optimizer.momentum = 0;
  training.elements = 24;
  training.buckets = buckets;
  training.noise = 3;  // steps of up to 0.3, so that the default bound of 0.1 holds many back
  training.jitter = 0.5;
  training.seed = seed;
  training.network.standard = {1e8, 100us};
  training.batches = training.batches_per_epoch = 20 * static_cast<std::uint64_t>(workers);
  return training;
}

// The furthest that a weight has been from what a worker computed on, in any block.
struct Furthest {
  double distance = 0;

  void look(const Block& block) {
    for (int worker = 0; worker < block.workers(); ++worker) {
      if (!block.is_computing(worker)) continue;
      for (std::size_t i = 0; i < block.weights().size(); ++i) {
        const float moved = std::abs(block.weights()[i] - block.read_by(worker)[i]);
        distance = std::max(distance, static_cast<double>(moved));
      }
    }
  }
};

TEST(ValueGate, KeepsItsBoundAndNeverLocksItselfWithAnyNumberOfBlocksServersAndWorkers) {
  for (int workers : {2, 3, 4, 5}) {
    for (int servers : {1, 2, 3}) {
      for (int buckets : {1, 2, 3, 12}) {  // 12: several blocks in one lane
        for (std::uint64_t seed = 0; seed < 10; ++seed) {
          SCOPED_TRACE(testing::Message() << workers << " workers, " << servers << " servers, "
                                          << buckets << " buckets, seed " << seed);
          SimulatedTraining training = training_of(workers, servers, buckets, seed);
          if (seed % 2 == 1) training.settings.slow = "1:3";
          Furthest furthest;
          training.on_update = [&](int, const Block& block, std::span<const Push>) {
            furthest.look(block);
          };
          SimulatedResult result;
          ASSERT_NO_THROW(result = simulate(training));
          expect_all_well(result);
          EXPECT_EQ(result.all_batches(), training.batches);
          EXPECT_LT(furthest.distance, training.settings.server.gate.value_bound);
          for (const auto& weights : result.weights) EXPECT_EQ(weights, result.weights[0]);
          if (HasFailure()) return;
        }
      }
    }
  }
}

TEST(ValueGate, GoesTogetherWithGroupsAndServersOnWorkers) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    SimulatedTraining training = training_of(4, 2, 3, seed);
    training.settings.server.group = 2;
    SimulatedResult result;
    ASSERT_NO_THROW(result = simulate(training)) << seed;
    expect_all_well(result);
    for (const auto& weights : result.weights) EXPECT_EQ(weights, result.weights[0]);
    training.settings.server.group = 1;
    training.settings.server.placement = ServerSettings::Placement::workers;
    ASSERT_NO_THROW(result = simulate(training)) << seed;
    expect_all_well(result);
    for (const auto& weights : result.weights) EXPECT_EQ(weights, result.weights[0]);
  }
}

TEST(ValueGate, GoesOnWithoutAWorkerThatIsLostAnywhereInItsStep) {
  for (int at_ms = 200; at_ms < 215; ++at_ms) {
    for (int lost : {0, 2}) {
      SimulatedTraining training = training_of(3, 2, 3, 1);
      training.faults.crashes.push_back({lost, std::chrono::milliseconds(at_ms)});
      SimulatedResult result;
      ASSERT_NO_THROW(result = simulate(training)) << lost << " at " << at_ms << " ms";
      expect_all_well(result);
    }
  }
}

// Worker 0 pushes after one second, while worker 1 computes on 10 until the third. Whether worker 0
// had to wait for that.
bool is_held(float gradient, float bound) {
  ServerOptions options = options_for(2, GateSettings::Kind::value);
  options.gate.value_bound = static_cast<double>(bound);
  ScriptedWorkers scene(options, {{{1s, Kind::push, gradient}}, {{3s, Kind::push_pull, 0}}});
  std::optional<Time> applied;
  scene.follower = [&](const Block&, std::span<const Push> pushes) {
    for (const Push& push : pushes) {
      if (push.worker == 0) applied = scene.cluster.loop().now();
    }
  };
  scene.run();
  return *applied >= 3s;
}

TEST(ValueGate, HoldsAnUpdateBackThatWouldMoveAWeightByTheBoundOrMore) {
  EXPECT_FALSE(is_held(0.25f, 0.5f));
  EXPECT_FALSE(is_held(-0.25f, 0.5f));
  EXPECT_FALSE(is_held(std::nextafter(0.5f, 0.0f), 0.5f + 1e-6f));
  EXPECT_TRUE(is_held(0.5f, 0.5f)) << "by exactly the bound";
  EXPECT_TRUE(is_held(-0.5f, 0.5f));
  EXPECT_TRUE(is_held(7, 0.5f));
}

TEST(ValueGate, HoldsBackWhatIsNoNumber) {
  EXPECT_TRUE(is_held(std::numeric_limits<float>::quiet_NaN(), 0.5f));
  EXPECT_TRUE(is_held(std::numeric_limits<float>::infinity(), 0.5f));
  EXPECT_TRUE(is_held(-std::numeric_limits<float>::infinity(), 0.5f));
}

TEST(ValueGate, LetsAnUpdateThroughWhenWhoComputedHasReadAgain) {
  ServerOptions options = options_for(3, GateSettings::Kind::value);
  options.gate.value_bound = 0.5;
  // Two small updates, which together are too far from what worker 2 has read first.
  ScriptedWorkers scene(options, {{{1s, Kind::push, 0.3f}},
                                  {{2s, Kind::push, 0.3f}},
                                  {{3s, Kind::pull}, {9s, Kind::nothing}}});
  std::vector<Time> applied;
  scene.follower = [&](const Block&, std::span<const Push>) {
    applied.push_back(scene.cluster.loop().now());
  };
  scene.run();
  ASSERT_EQ(applied.size(), 2u);
  EXPECT_LT(applied[0], 2s);
  EXPECT_GE(applied[1], 3s);
  EXPECT_LT(applied[1], 4s);
}

}  // namespace
}  // namespace starling
