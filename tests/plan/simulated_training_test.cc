// A simulated training against what can be worked out by hand.
#include "plan/simulated_training.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "base/error.h"
#include "tests/counted_allocations.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

SimulatedTraining training_of(const std::string& strategy, int workers) {
  SimulatedTraining training;
  training.settings.strategy = named<StrategyKind>(strategy);
  training.settings.workers = workers;
  training.settings.optimizer.lr = 0.1;
  training.settings.optimizer.momentum = 0;
  training.elements = 10;
  training.batches = 20 * static_cast<std::uint64_t>(workers);
  training.batches_per_epoch = training.batches;
  training.compute = 10ms;
  return training;
}

SimulatedResult simulate_well(const SimulatedTraining& training) {
  SimulatedResult result = simulate(training);
  for (const std::exception_ptr& error : result.errors) {
    if (error) std::rethrow_exception(error);
  }
  return result;
}

// Thousands can be simulated only if nobody keeps anything of everybody.
TEST(SimulatedTraining, AWorkerThatKnowsItsNeighboursTakesAsMuchMemoryAmongManyAsAmongFew) {
  const auto bytes_per_worker = [](int workers) {
    SimulatedTraining training = training_of("pairwise", workers);
    training.batches = 4 * static_cast<std::uint64_t>(workers);
    const std::size_t before = allocated_bytes;
    simulate_well(training);
    return static_cast<double>(allocated_bytes - before) / workers;
  };
  const double among_few = bytes_per_worker(250), among_many = bytes_per_worker(2000);
  EXPECT_LT(among_many, 1.5 * among_few) << among_few;  // agreeing on the mean takes log n messages
}

TEST(SimulatedNoise, IsEvenAroundZeroAndAnotherForEveryWeightBatchAndSeed) {
  SimulatedTraining training;
  training.noise = 0.5;
  std::set<float> seen;
  double sum = 0;
  for (std::uint64_t seed : {1, 2}) {
    training.seed = seed;
    for (std::uint64_t batch = 0; batch < 50; ++batch) {
      for (std::size_t i = 0; i < 100; ++i) {
        const float noise = simulated_noise(training, batch, i);
        EXPECT_LE(std::abs(noise), 0.5f);
        sum += static_cast<double>(noise);
        seen.insert(noise);
      }
    }
  }
  EXPECT_NEAR(sum / 10'000, 0, 0.015);  // five standard deviations
  EXPECT_GT(seen.size(), 9'900u);       // floats may meet by chance
  training.noise = 0;
  EXPECT_EQ(simulated_noise(training, 3, 3), 0);
}

// Without noise every step takes a tenth of the way that is left, whoever takes it.
TEST(SimulatedTraining, DescendsOnceAStep) {
  for (const char* strategy : {"allreduce", "server"}) {
    const SimulatedResult result = simulate_well(training_of(strategy, 2));
    for (std::size_t i = 0; i < 10; ++i) {
      const double goal = static_cast<double>(simulated_target(i)) * (1 - std::pow(0.9, 20));
      EXPECT_NEAR(result.weights[0][i], goal, 1e-5) << strategy;
    }
  }
}

TEST(SimulatedTraining, TakesTheTimeOfItsSteps) {
  SimulatedTraining training = training_of("allreduce", 2);
  training.network.standard.latency = 50ms;  // the start takes its time, too
  training.elements = 0;
  const SimulatedResult slowly = simulate_well(training);
  EXPECT_GE(slowly.start, 50ms);
  EXPECT_EQ(slowly.all_batches(), 40u);
  const double seconds = std::chrono::duration<double>(slowly.time - slowly.start).count();
  EXPECT_NEAR(slowly.batches_per_second(), 40 / seconds, 1e-9);

  training.network = {};
  const SimulatedResult at_once = simulate_well(training);
  EXPECT_EQ(at_once.time - at_once.start, 200ms);
  EXPECT_NEAR(at_once.batches_per_second(), 200, 1e-9);

  training.jitter = 0.5;
  const SimulatedResult jittered = simulate_well(training);
  EXPECT_GT(jittered.time - jittered.start, 210ms);
  EXPECT_LT(jittered.time - jittered.start, 300ms);
}

TEST(SimulatedTraining, ASlowWorkerDoesLessWhereNobodyWaits) {
  SimulatedTraining training = training_of("server", 3);
  training.settings.server.gate.kind = GateSettings::Kind::async;
  training.settings.slow = "1:4";
  training.batches = 300;
  const SimulatedResult result = simulate_well(training);
  EXPECT_EQ(result.all_batches(), 300u);
  EXPECT_NEAR(static_cast<double>(result.batches[0]), 133, 4);
  EXPECT_NEAR(static_cast<double>(result.batches[1]), 33, 4);
  EXPECT_NEAR(static_cast<double>(result.batches[2]), 133, 4);
}

// Who pushes every gradient and fetches weights seldom sends more than it gets; its server, the
// other way around.
TEST(SimulatedTraining, CountsTheBytesOfWorkersAndServersBothWays) {
  SimulatedTraining training = training_of("server", 2);
  training.settings.server.gate.kind = GateSettings::Kind::async;
  training.settings.server.fetch_every = 10;
  training.elements = 10'000;
  const SimulatedResult result = simulate_well(training);
  ASSERT_EQ(result.wire_bytes_sent.size(), 3u);
  ASSERT_EQ(result.wire_bytes_received.size(), 3u);
  EXPECT_GT(result.wire_bytes_sent[0], 3 * result.wire_bytes_received[0]);
  EXPECT_LT(3 * result.wire_bytes_sent[2], result.wire_bytes_received[2]);
  const auto sum = [](const auto& each) { return std::accumulate(each.begin(), each.end(), 0ull); };
  EXPECT_EQ(sum(result.wire_bytes_sent), sum(result.wire_bytes_received));
}

TEST(SimulatedTraining, ACrashIsOne) {
  SimulatedTraining training = training_of("allreduce", 3);
  training.faults.crashes.push_back({2, 55ms});
  const SimulatedResult result = simulate(training);
  EXPECT_FALSE(result.errors[2]) << "it was meant to";
  ASSERT_TRUE(result.errors[0]);
  EXPECT_THROW(std::rethrow_exception(result.errors[0]), PeerLost);
  EXPECT_LT(result.all_batches(), 60u);
}

TEST(SimulatedTraining, ReportsTheMixingOfAllWorkers) {
  const SimulatedResult result = simulate_well(training_of("pairwise", 3));
  EXPECT_EQ(result.mixing.rounds, 60u);
}

TEST(SimulatedTraining, RefusesSettingsThatCannotBeRun) {
  EXPECT_THROW(simulate(training_of("magic", 2)), Error);
  SimulatedTraining training = training_of("ring-leader", 2);
  training.settings.mix.codec.kind = CodecSettings::Kind::half;
  EXPECT_THROW(simulate(training), Error);
}

}  // namespace
}  // namespace starling
