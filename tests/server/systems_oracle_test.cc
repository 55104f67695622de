// Parameter servers in the simulator, beside the plain maths that they must equal.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "plan/simulated_training.h"
#include "server/keys.h"
#include "strategy/server_plan.h"
#include "tests/server/expect_all_well.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

Settings server_settings(int workers, const std::string& gate) {
  Settings settings;
  settings.strategy = StrategyKind::server;
  settings.workers = workers;
  settings.server.gate.kind = named<GateSettings::Kind>(gate);
  settings.optimizer.lr = 0.1;
  settings.optimizer.momentum = 0;
  return settings;
}

SimulatedTraining training_of(Settings settings, std::uint64_t seed = 1) {
  SimulatedTraining training;
  training.settings = std::move(settings);
  training.noise = 0.5;
  training.seed = seed;
  training.jitter = 0.5;
  training.network.standard = {1e8, 100us};
  training.batches_per_epoch = 20 * static_cast<std::uint64_t>(training.settings.workers);
  training.batches = 2 * training.batches_per_epoch;
  return training;
}

void expect_equal_weights(const SimulatedResult& result) {
  for (const auto& weights : result.weights) EXPECT_EQ(weights, result.weights[0]);
}

// Of the learning rate, by the formulas: 20 steps an epoch, and two epochs.
double share_in(const SimulatedTraining& training, std::uint64_t step) {
  const LrSchedule& schedule = training.settings.lr_schedule;
  const double warm = 20 * schedule.warmup_epochs, now = static_cast<double>(step);
  if (now < warm) return (now + 1) / warm;
  if (schedule.kind == LrSchedule::Kind::constant) return 1;
  if (schedule.kind == LrSchedule::Kind::step)
    return std::pow(schedule.decay, std::floor(now / 10));
  const double wave = (1 + std::cos(std::acos(-1.0) * (now - warm) / (40 - warm))) / 2;
  return schedule.end + (1 - schedule.end) * wave;
}

// Whether an epoch ends before that step.
bool is_left_out(const SimulatedTraining& training, std::uint64_t step) {
  const auto workers = static_cast<double>(training.settings.workers);
  const double share = training.settings.server.gate.epoch_share;
  return static_cast<double>(step % 20) * workers >= std::ceil(share * 20 * workers);
}

// Plain SGD with momentum on the mean gradient of each step.
std::vector<float> plain_sgd(const SimulatedTraining& training) {
  const Settings& settings = training.settings;
  const auto workers = static_cast<std::uint64_t>(settings.workers);
  std::vector<double> weights(training.elements), velocity(training.elements);
  for (std::uint64_t step = 0; step < training.batches / workers; ++step) {
    if (is_left_out(training, step)) continue;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      double mean = 0;
      for (std::uint64_t worker = 0; worker < workers; ++worker) {
        const std::uint64_t batch = step * workers + worker;
        mean += weights[i] - static_cast<double>(simulated_target(i)) +
                static_cast<double>(simulated_noise(training, batch, i));
      }
      mean /= static_cast<double>(workers);
      velocity[i] = settings.optimizer.momentum * velocity[i] + mean;
      weights[i] -= settings.optimizer.lr * share_in(training, step) * velocity[i];
    }
  }
  return {weights.begin(), weights.end()};
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a[i] - b[i])));
  }
  return largest;
}

double distance_to_target(const std::vector<float>& weights) {
  double largest = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(weights[i] - simulated_target(i))));
  }
  return largest;
}

struct Topology {
  int servers;
  const char* placement;
  int group;
};

TEST(Bsp, IsPlainSgdForAnyNumberOfWorkersServersAndBuckets) {
  for (int workers : {1, 2, 3, 5, 8, 13}) {
    for (const Topology& topology :
         {Topology{1, "apart", 1}, Topology{3, "apart", 1}, Topology{1, "workers", 1},
          Topology{0, "workers", 1}, Topology{1, "workers", 0}, Topology{2, "apart", 0}}) {
      for (std::size_t elements : {16, 101, 1000}) {
        SCOPED_TRACE(testing::Message()
                     << workers << " workers, " << topology.servers << " " << topology.placement
                     << ", group " << topology.group << ", " << elements << " elements");
        Settings settings = server_settings(workers, "bsp");
        settings.server.servers = topology.servers;
        settings.server.placement = named<ServerSettings::Placement>(topology.placement);
        settings.server.group = topology.group;
        settings.optimizer.momentum = 0.5;
        SimulatedTraining training = training_of(settings, static_cast<std::uint64_t>(workers));
        training.elements = elements;
        training.buckets = elements > 100 ? 3 : 1;
        const SimulatedResult result = simulate(training);
        expect_all_well(result);
        expect_equal_weights(result);
        EXPECT_LT(largest_difference(result.weights[0], plain_sgd(training)), 1e-5);
        EXPECT_EQ(result.all_batches(), training.batches);
        EXPECT_EQ(result.server->staleness.max, 0u);
      }
    }
  }
}

TEST(Bsp, IsPlainSgdInGroupsOfAnySize) {
  for (const auto& [workers, group] : {std::pair{4, 2}, {6, 2}, {6, 3}, {8, 4}, {15, 5}}) {
    for (int servers : {1, 2}) {
      SCOPED_TRACE(testing::Message()
                   << workers << " in groups of " << group << ", " << servers << " servers");
      Settings settings = server_settings(workers, "bsp");
      settings.server.servers = servers;
      settings.server.group = group;
      SimulatedTraining training = training_of(settings);
      training.buckets = 3;
      const SimulatedResult result = simulate(training);
      expect_all_well(result);
      expect_equal_weights(result);
      EXPECT_LT(largest_difference(result.weights[0], plain_sgd(training)), 1e-5);
      for (const std::uint64_t batches : result.batches) EXPECT_EQ(batches, 40u);
    }
  }
}

// So many that each server has several blocks a lane.
TEST(Bsp, IsPlainSgdOnAModelOfManyBlocks) {
  for (int servers : {1, 2}) {
    for (int buckets : {1, 2}) {
      SCOPED_TRACE(testing::Message() << servers << " servers, " << buckets << " buckets");
      Settings settings = server_settings(3, "bsp");
      settings.server.servers = servers;
      SimulatedTraining training = training_of(settings);
      training.elements = 19 * kLargestBlockElements + 1;
      training.buckets = buckets;
      training.batches_per_epoch = 6;
      training.batches = 6;
      const SimulatedResult result = simulate(training);
      expect_all_well(result);
      expect_equal_weights(result);
      EXPECT_LT(largest_difference(result.weights[0], plain_sgd(training)), 1e-5);
    }
  }
}

// A server's port carries n |w| in and n |w| out a step. Both directions at once take 0.54 s, one
// after the other 1.07 s; when all blocks were pushed at once, it was 0.95 s.
TEST(Bsp, LetsWeightsPassTheGradientsThatAreStillToCome) {
  constexpr int kWorkers = 4;
  constexpr std::uint64_t kSteps = 2;
  SimulatedTraining training = training_of(server_settings(kWorkers, "bsp"));
  training.elements = 32 * kLargestBlockElements;
  training.buckets = 1;
  training.network.standard = {1.25e8, 100us};  // 1 Gbit/s
  training.batches_per_epoch = training.batches = kWorkers * kSteps;
  const SimulatedResult result = simulate(training);
  expect_all_well(result);
  const double bytes = static_cast<double>(kWorkers * training.elements * sizeof(float));
  const double least_seconds = bytes / training.network.standard.bytes_per_second * kSteps;
  const double seconds = std::chrono::duration<double>(result.time - result.start).count();
  EXPECT_GT(seconds / least_seconds, 1);
  EXPECT_LT(seconds / least_seconds, 1.25);
}

TEST(Ssp, WithBoundZeroEqualsBspBitForBit) {
  for (int workers : {1, 2, 3, 5, 8}) {
    for (std::uint64_t seed : {1, 2, 3}) {
      for (const char* slow : {"", "0:5"}) {
        Settings bsp = server_settings(workers, "bsp");
        bsp.slow = slow;
        Settings ssp = bsp;
        ssp.server.gate.kind = GateSettings::Kind::ssp;
        ssp.server.gate.delay_bound = 0;
        SimulatedTraining training = training_of(bsp, seed);
        const SimulatedResult expected = simulate(training);
        training.settings = ssp;
        const SimulatedResult result = simulate(training);
        expect_all_well(result);
        for (std::size_t i = 0; i < result.weights[0].size(); ++i) {
          ASSERT_EQ(result.weights[0][i], expected.weights[0][i]);
        }
      }
    }
  }
}

TEST(Ssp, WithoutBoundEqualsAsync) {
  for (int workers : {1, 2, 3, 5, 8}) {
    for (std::uint64_t seed : {1, 2, 3}) {
      SimulatedTraining training = training_of(server_settings(workers, "async"), seed);
      const SimulatedResult expected = simulate(training);
      training.settings.server.gate.kind = GateSettings::Kind::ssp;
      training.settings.server.gate.delay_bound = 1'000'000'000;
      const SimulatedResult result = simulate(training);
      expect_all_well(result);
      EXPECT_EQ(result.weights, expected.weights);
      EXPECT_EQ(result.order, expected.order);
    }
  }
}

TEST(Ssp, NobodyIsEverFurtherAheadThanTheBound) {
  for (int bound : {1, 2, 5}) {
    Settings settings = server_settings(4, "ssp");
    settings.server.gate.delay_bound = bound;
    settings.slow = "2:7";
    SimulatedTraining training = training_of(settings);
    std::uint64_t furthest = 0;
    training.on_update = [&](int, const Block& block, std::span<const Push>) {
      for (int worker = 0; worker < block.workers(); ++worker) {
        if (block.active(worker)) {
          furthest = std::max(furthest, block.clock(worker) - block.closed());
        }
      }
    };
    const SimulatedResult result = simulate(training);
    expect_all_well(result);
    // A worker that is s ahead may still compute and push one step: it then waits.
    EXPECT_EQ(furthest, static_cast<std::uint64_t>(bound) + 1);
  }
}

// Every update in the order in which the server made it, replayed by plain maths.
struct Replay {
  explicit Replay(const SimulatedTraining& of) : training(of) {}

  void update(const Block& block, std::span<const Push> pushes) {
    std::vector<float> mean(training.elements);
    for (const Push& push : pushes) {
      const auto worker = static_cast<std::size_t>(push.worker);
      const std::uint64_t batch = order[worker][push.clock];
      const std::vector<float>& then = versions[push.version];
      for (std::size_t i = 0; i < mean.size(); ++i) {
        float g = then[i] - simulated_target(i) + simulated_noise(training, batch, i);
        if (training.settings.server.staleness.kind == StalenessRule::Kind::compensate) {
          const auto lambda = static_cast<float>(training.settings.server.staleness.lambda);
          g = g + lambda * g * g * (versions.back()[i] - then[i]);
        }
        mean[i] += g;
      }
    }
    const double delay = static_cast<double>(block.version() - 1 - pushes[0].version);
    const double factor = training.settings.server.staleness.kind == StalenessRule::Kind::scale
                              ? 1 / std::max(1.0, delay)
                              : 1;
    double share = 1;  // the smallest of theirs
    for (const Push& push : pushes) {
      const std::uint64_t batch = order[static_cast<std::size_t>(push.worker)][push.clock];
      const auto workers = static_cast<std::uint64_t>(training.settings.workers);
      share = std::min(share, share_in(training, batch / workers));
    }
    const auto lr = static_cast<float>(training.settings.optimizer.lr * factor * share);
    std::vector<float> weights = versions.back();
    for (std::size_t i = 0; i < mean.size(); ++i) {
      if (pushes.size() > 1) mean[i] *= 1.0f / static_cast<float>(pushes.size());
      weights[i] -= lr * mean[i];
    }
    versions.push_back(weights);
  }

  const SimulatedTraining& training;
  std::vector<std::vector<std::uint64_t>> order;
  std::vector<std::vector<float>> versions;
};

// Runs twice: once to learn who worked on what, once to follow the server with that knowledge.
void expect_replayable(SimulatedTraining training) {
  Replay replay(training);
  replay.order = simulate(training).order;
  replay.versions.assign(1, std::vector<float>(training.elements, 0.0f));
  training.on_update = [&](int, const Block& block, std::span<const Push> pushes) {
    replay.update(block, pushes);
  };
  const SimulatedResult result = simulate(training);
  expect_all_well(result);
  expect_equal_weights(result);
  EXPECT_LT(largest_difference(result.weights[0], replay.versions.back()), 1e-5);
  EXPECT_EQ(result.server->updates, replay.versions.size() - 1);
}

TEST(Async, IsEveryGradientInTheOrderOfItsArrivalOnTheWeightsItWasComputedOn) {
  for (int workers : {1, 2, 3, 5, 8, 13}) {
    for (const char* staleness : {"plain", "scale", "compensate"}) {
      for (std::uint64_t seed : {1, 2}) {
        SCOPED_TRACE(testing::Message() << workers << " " << staleness << " " << seed);
        Settings settings = server_settings(workers, "async");
        settings.server.staleness.kind = named<StalenessRule::Kind>(staleness);
        if (settings.server.staleness.kind == StalenessRule::Kind::compensate)
          settings.server.staleness.lambda = 0.3;
        settings.optimizer.lr = 0.05;
        if (workers > 1) settings.slow = "1:3";
        expect_replayable(training_of(settings, seed));
      }
    }
  }
}

TEST(Quorum, IsTheMeanOfTheFirstOnTheNewestWeights) {
  for (int workers : {2, 3, 5, 8}) {
    for (int quorum : {1, 2, workers}) {
      SCOPED_TRACE(testing::Message() << quorum << " of " << workers);
      Settings settings = server_settings(workers, "quorum");
      settings.server.gate.quorum = quorum;
      settings.slow = "0:4";
      SimulatedTraining training = training_of(settings);
      std::uint64_t short_rounds = 0, rounds = 0;
      training.on_update = [&](int, const Block& block, std::span<const Push> pushes) {
        ++rounds;
        short_rounds += static_cast<int>(pushes.size()) < quorum;
        for (const Push& push : pushes) EXPECT_EQ(push.version + 1, block.version());
      };
      const SimulatedResult result = simulate(training);
      expect_all_well(result);
      EXPECT_LE(short_rounds, 2u);  // when work runs out
      EXPECT_EQ(result.server->applied() + result.server->dropped, training.batches);
      if (quorum < workers) {
        EXPECT_GT(result.server->dropped, 0u);
      }
      expect_replayable(training);
    }
  }
}

TEST(Softsync, IsTheMeanOfEverySoManyOnTheWeightsEachWasComputedOn) {
  for (int workers : {2, 3, 5, 8}) {
    for (int gradients : {1, 2, workers}) {
      for (std::uint64_t seed : {1, 2}) {
        SCOPED_TRACE(testing::Message() << gradients << " of " << workers << ", seed " << seed);
        Settings settings = server_settings(workers, "softsync");
        settings.server.gate.quorum = gradients;
        settings.slow = "0:4";
        SimulatedTraining training = training_of(settings, seed);
        std::uint64_t short_ones = 0;
        training.on_update = [&](int, const Block&, std::span<const Push> pushes) {
          EXPECT_LE(static_cast<int>(pushes.size()), gradients);
          short_ones += static_cast<int>(pushes.size()) < gradients;
        };
        const SimulatedResult result = simulate(training);
        expect_all_well(result);
        EXPECT_LE(short_ones, static_cast<std::uint64_t>(gradients)) << "when work runs out";
        EXPECT_EQ(result.server->applied(), training.batches);
        EXPECT_EQ(result.server->dropped, 0u);
        expect_replayable(training);
      }
    }
  }
}

TEST(Softsync, OfOneGradientIsAsync) {
  Settings settings = server_settings(4, "softsync");
  settings.server.gate.quorum = 1;
  const SimulatedResult softsync = simulate(training_of(settings));
  EXPECT_EQ(softsync.weights, simulate(training_of(server_settings(4, "async"))).weights);
}

std::vector<LrSchedule> lr_schedules() {
  using enum LrSchedule::Kind;
  return {{.kind = constant, .warmup_epochs = 0.5},
          {.kind = step, .step_epochs = 0.5, .decay = 0.3},
          {.kind = cosine},
          {.kind = cosine, .end = 0.1, .warmup_epochs = 0.25}};
}

TEST(LrSchedule, IsFollowedByServersInRoundsAndAsGradientsCome) {
  for (int workers : {1, 2, 3, 5, 8}) {
    for (const LrSchedule& schedule : lr_schedules()) {
      for (int servers : {1, 3}) {
        SCOPED_TRACE(testing::Message() << workers << " " << schedule.kind << " " << servers);
        Settings settings = server_settings(workers, "bsp");
        settings.lr_schedule = schedule;
        settings.server.servers = servers;
        settings.optimizer.momentum = 0.5;
        SimulatedTraining in_rounds = training_of(settings, 3);
        in_rounds.buckets = servers;
        EXPECT_LT(largest_difference(simulate(in_rounds).weights[0], plain_sgd(in_rounds)), 1e-5);
      }
      for (const char* gate : {"async", "quorum", "softsync"}) {
        Settings settings = server_settings(workers, gate);
        settings.lr_schedule = schedule;
        expect_replayable(training_of(settings, 3));
      }
    }
  }
}

// Where workers update: each has all of the schedule, and the mean of their models is that of plain
// SGD, as mixing that favours nobody keeps the mean.
TEST(LrSchedule, IsFollowedByWorkersThatUpdateThemselves) {
  for (int workers : {1, 2, 3, 5, 8}) {
    for (const LrSchedule& schedule : lr_schedules()) {
      for (const StrategyKind strategy : {StrategyKind::allreduce, StrategyKind::pairwise}) {
        SCOPED_TRACE(testing::Message() << workers << " " << schedule.kind << " " << strategy);
        Settings settings;
        settings.workers = workers;
        settings.strategy = strategy;
        settings.lr_schedule = schedule;
        settings.optimizer = {.lr = 0.1, .momentum = 0};
        const SimulatedTraining training = training_of(settings, 3);
        EXPECT_LT(largest_difference(simulate(training).weights[0], plain_sgd(training)), 1e-5);
      }
    }
  }
}

// Between two fetches a worker steps by itself, as far as the schedule says.
TEST(LrSchedule, IsFollowedBetweenTwoFetches) {
  Settings settings = server_settings(1, "async");
  settings.lr_schedule = {.kind = LrSchedule::Kind::step, .step_epochs = 0.5, .decay = 0.3};
  settings.server.fetch_every = 5;
  const SimulatedTraining training = training_of(settings, 3);
  EXPECT_LT(largest_difference(simulate(training).weights[0], plain_sgd(training)), 1e-5);
}

TEST(ValueBound, NoUpdateMovesAWeightTooFarFromWhatAWorkerComputesOn) {
  for (double bound : {0.02, 0.05, 0.2}) {
    Settings settings = server_settings(4, "value");
    settings.server.gate.value_bound = bound;
    settings.optimizer.lr = 0.02;
    settings.slow = "3:5";
    SimulatedTraining training = training_of(settings);
    double furthest = 0;
    training.on_update = [&](int, const Block& block, std::span<const Push>) {
      for (int worker = 0; worker < block.workers(); ++worker) {
        if (!block.is_computing(worker)) continue;
        for (std::size_t i = 0; i < block.weights().size(); ++i) {
          const float moved = std::abs(block.weights()[i] - block.read_by(worker)[i]);
          furthest = std::max(furthest, static_cast<double>(moved));
        }
      }
    };
    const SimulatedResult result = simulate(training);
    expect_all_well(result);
    EXPECT_LT(furthest, bound);
    EXPECT_GT(result.server->staleness.max, 0u);  // it is not bsp
  }
}

TEST(ValueBound, ABoundSmallerThanAnyUpdateStillMakesProgress) {
  Settings settings = server_settings(4, "value");
  settings.server.gate.value_bound = 1e-9;
  const SimulatedResult result = simulate(training_of(settings));
  expect_all_well(result);
  EXPECT_EQ(result.server->applied(), 160u);
}

// Seed 004's relaxation of synchronous systems: all leave out the same steps of an epoch.
TEST(EarlyEpochEnd, OfBspIsPlainSgdOnTheFirstStepsOfEachEpoch) {
  for (int workers : {1, 2, 3, 5, 8}) {
    for (double share : {0.01, 0.3, 0.75, 0.95}) {
      SCOPED_TRACE(testing::Message() << workers << " workers, " << share);
      Settings settings = server_settings(workers, "bsp");
      settings.server.gate.epoch_share = share;
      settings.optimizer.momentum = 0.5;
      settings.lr_schedule.kind = LrSchedule::Kind::cosine;  // goes by what is done and left out
      if (workers > 1) settings.slow = "1:10";
      const SimulatedTraining training = training_of(settings, 3);
      const SimulatedResult result = simulate(training);
      expect_all_well(result);
      expect_equal_weights(result);
      EXPECT_LT(largest_difference(result.weights[0], plain_sgd(training)), 1e-5);
      for (std::uint64_t batches : result.batches) EXPECT_EQ(batches, result.batches[0]);
    }
  }
}

// With every gate an epoch ends before its time, and nobody waits for ever.
TEST(EarlyEpochEnd, IsForEveryGate) {
  for (const char* gate : {"bsp", "ssp", "async", "value", "quorum", "softsync"}) {
    for (double share : {0.3, 0.75, 0.95}) {
      for (int workers : {1, 3, 4}) {
        SCOPED_TRACE(testing::Message() << gate << " " << share << " of " << workers);
        Settings settings = server_settings(workers, gate);
        settings.server.gate.epoch_share = share;
        if (workers > 1) settings.slow = "1:10";
        const SimulatedTraining training = training_of(settings);
        const SimulatedResult result = simulate(training);
        expect_all_well(result);
        expect_equal_weights(result);
        const auto done = static_cast<double>(result.all_batches());
        const auto epoch = static_cast<double>(training.batches_per_epoch);
        EXPECT_GE(done, 2 * share * epoch);
        // A step more of all; where epochs end by waiting, what the fast ones have of their own.
        const bool waits = settings.server.gate.kind == GateSettings::Kind::async;
        EXPECT_LE(done, 2 * ((waits ? std::max(share, 0.75) : share) * epoch + 2 * workers));
      }
    }
  }
}

TEST(EarlyEpochEnd, OfAsyncWaitsForTheShareAndSkipsTheSlowOnesRest) {
  for (double share : {0.5, 0.75, 1.0}) {
    Settings settings = server_settings(4, "async");
    settings.server.gate.epoch_share = share;
    settings.slow = "1:10";
    SimulatedTraining training = training_of(settings);
    training.batches_per_epoch = 400;
    training.batches = 800;
    const SimulatedResult result = simulate(training);
    expect_all_well(result);
    expect_equal_weights(result);
    // The three fast ones do all of theirs, which is the share or it is not; the slow one's rest is
    // left out.
    const double done = static_cast<double>(result.all_batches()) / 800;
    EXPECT_GE(done, share);
    EXPECT_LT(done, share == 1.0 ? 1.01 : std::max(share, 0.75) + 0.05);
    EXPECT_EQ(result.all_batches() == 800, share == 1.0);
  }
}

TEST(Clerk, TheWholeWorkIsDoneOnceWhoeverIsFree) {
  for (const char* gate : {"async", "ssp", "value"}) {
    Settings settings = server_settings(5, gate);
    settings.slow = "0:5";
    const SimulatedResult result = simulate(training_of(settings));
    expect_all_well(result);
    std::vector<std::uint64_t> all;
    for (const auto& order : result.order) all.insert(all.end(), order.begin(), order.end());
    std::ranges::sort(all);
    ASSERT_EQ(all.size(), 200u);
    for (std::uint64_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], i);
  }
}

TEST(Downpour, PushesSumsAndFetchesSeldom) {
  for (int workers : {1, 3, 4}) {
    Settings settings = server_settings(workers, "async");
    settings.server.push_every = 3;
    settings.server.fetch_every = 5;
    settings.optimizer.kind = OptimizerSettings::Kind::adagrad;
    settings.optimizer.lr = 0.2;
    SimulatedTraining training = training_of(settings);
    training.noise = 0.1;
    training.batches = 300 * static_cast<std::uint64_t>(workers);
    const SimulatedResult result = simulate(training);
    expect_all_well(result);
    expect_equal_weights(result);
    EXPECT_LE(result.server->applied(), training.batches / 3);
    EXPECT_GE(result.server->applied(), training.batches / 3 - static_cast<std::uint64_t>(workers));
    EXPECT_LT(distance_to_target(result.weights[0]), 0.1);
  }
}

TEST(Lag, EveryGradientNamesTheWeightsItWasComputedOn) {
  for (int workers : {2, 3, 5}) {
    for (int lag : {1, 2, 3}) {
      SCOPED_TRACE(testing::Message() << workers << " workers, lag " << lag);
      Settings settings = server_settings(workers, "async");
      settings.server.lag = lag;
      settings.optimizer.lr = 0.02;
      settings.slow = "1:3";
      expect_replayable(training_of(settings));
    }
  }
}

TEST(Lag, ConvergesAndOverlapsTheNetworkWithComputing) {
  Settings settings = server_settings(2, "async");
  settings.optimizer.lr = 0.05;
  SimulatedTraining training = training_of(settings);
  training.elements = 25'000;  // 100 KB: about as long to move as to compute on
  training.network.standard = {4e7, 100us};
  training.noise = 0;
  training.batches = 800;
  const SimulatedResult waiting = simulate(training);
  training.settings.server.lag = 1;
  const SimulatedResult going_on = simulate(training);
  expect_all_well(going_on);
  EXPECT_LT(distance_to_target(going_on.weights[0]), 0.01);
  EXPECT_GT(going_on.batches_per_second(), 1.3 * waiting.batches_per_second());
}

TEST(Eager, KeepsTheContractOfTheDelayBoundAndAsksLess) {
  Settings settings = server_settings(4, "ssp");
  settings.server.gate.delay_bound = 3;
  settings.optimizer.lr = 0.02;
  SimulatedTraining training = training_of(settings);
  training.elements = 1000;
  training.noise = 0.1;
  training.batches = 1600;
  const SimulatedResult asking = simulate(training);
  training.settings.server.eager = true;
  std::uint64_t furthest = 0;
  training.on_update = [&](int, const Block& block, std::span<const Push>) {
    for (int worker = 0; worker < block.workers(); ++worker) {
      if (block.active(worker)) {
        furthest = std::max(furthest, block.clock(worker) - block.closed());
      }
    }
  };
  const SimulatedResult eager = simulate(training);
  expect_all_well(eager);
  expect_equal_weights(eager);
  EXPECT_LE(furthest, 4u);
  EXPECT_LT(distance_to_target(eager.weights[0]), 0.1);
  EXPECT_GT(eager.batches_per_second(), asking.batches_per_second());
}

// Pushes and pulls that go apart, and blocks of equal size that take each other's memory.
TEST(Eager, EachBlockGetsItsOwnWeightsWhateverMemoryTheyTravelIn) {
  Settings settings = server_settings(2, "ssp");
  settings.server.gate.delay_bound = 1;
  settings.server.eager = true;
  SimulatedTraining training = training_of(settings);
  training.elements = 4 * kLargestBlockElements;
  training.batches_per_epoch = 10;
  training.batches = 20;
  const SimulatedResult result = simulate(training);
  expect_all_well(result);
  EXPECT_TRUE(result.weights[0] == result.weights[1]);
}

// One worker has a step more than the others: nobody waits for those who are done.
TEST(Clerk, NoGateWaitsForAWorkerThatFinishesEarly) {
  for (const char* gate : {"bsp", "ssp", "async", "value", "quorum", "softsync"}) {
    for (int delay_bound : {0, 2}) {
      Settings settings = server_settings(4, gate);
      if (settings.server.gate.kind == GateSettings::Kind::ssp)
        settings.server.gate.delay_bound = delay_bound;
      SimulatedTraining training = training_of(settings);
      training.batches = 41;
      training.batches_per_epoch = 40;
      const SimulatedResult result = simulate(training);
      expect_all_well(result);
      expect_equal_weights(result);
    }
  }
}

TEST(Loss, AnAsyncSystemGoesOnWithoutALostWorker) {
  for (const char* gate : {"async", "quorum", "value", "softsync"}) {
    for (double share : {1.0, 0.75}) {
      for (int lost : {0, 2}) {
        SCOPED_TRACE(testing::Message() << gate << " " << share << " loses " << lost);
        Settings settings = server_settings(4, gate);
        settings.server.gate.epoch_share = share;
        SimulatedTraining training = training_of(settings);
        training.batches = 400;
        training.faults.crashes.push_back({lost, 205ms});
        const SimulatedResult result = simulate(training);
        expect_all_well(result);
        EXPECT_GE(static_cast<double>(result.all_batches()), share * 400 - 10);
        EXPECT_EQ(result.weights[1], result.weights[3]);
        EXPECT_LT(distance_to_target(result.weights[1]), 0.5);
      }
    }
  }
}

TEST(Loss, ASystemThatNeedsEverybodyEndsWithTheNameOfTheLost) {
  for (const char* gate : {"bsp", "ssp"}) {
    SimulatedTraining training = training_of(server_settings(4, gate));
    training.faults.crashes.push_back({2, 205ms});
    const SimulatedResult result = simulate(training);
    for (std::size_t rank : {0u, 1u, 3u, 4u}) {
      ASSERT_TRUE(result.errors[rank]);
      try {
        std::rethrow_exception(result.errors[rank]);
      } catch (const PeerLost& lost) {
        EXPECT_EQ(lost.rank(), 2);
      }
    }
  }
}

TEST(Loss, ALostServerEndsTheRun) {
  for (const char* gate : {"bsp", "async", "quorum"}) {
    Settings settings = server_settings(3, gate);
    settings.server.servers = 2;
    SimulatedTraining training = training_of(settings);
    training.faults.crashes.push_back({4, 205ms});
    const SimulatedResult result = simulate(training);
    for (std::size_t rank : {0u, 1u, 2u}) {
      ASSERT_TRUE(result.errors[rank]) << gate;
      EXPECT_THROW(std::rethrow_exception(result.errors[rank]), PeerLost);
    }
  }
}

TEST(Determinism, ARunDependsOnNothingButItsSeed) {
  for (const char* gate : {"bsp", "ssp", "async", "value", "quorum", "softsync"}) {
    for (double share : {1.0, 0.75}) {
      Settings settings = server_settings(5, gate);
      settings.server.gate.epoch_share = share;
      const SimulatedTraining training = training_of(settings, 7);
      const SimulatedResult first = simulate(training);
      const SimulatedResult second = simulate(training);
      EXPECT_EQ(first.weights, second.weights);
      EXPECT_EQ(first.time, second.time);
      EXPECT_EQ(first.wire_bytes_sent, second.wire_bytes_sent);
    }
  }
}

TEST(Bytes, MatchTheFormulasToWithinTwoPercent) {
  constexpr int kWorkers = 4;
  constexpr std::size_t kElements = 100'000;
  constexpr std::uint64_t kSteps = 50;
  const auto model = static_cast<double>(kElements * sizeof(float));
  for (const bool everywhere : {false, true}) {
    Settings settings = server_settings(kWorkers, "bsp");
    if (everywhere) {
      settings.server.servers = 0;
      settings.server.placement = ServerSettings::Placement::workers;
    }
    SimulatedTraining training = training_of(settings);
    training.elements = kElements;
    training.batches = kSteps * kWorkers;
    const SimulatedResult result = simulate(training);
    expect_all_well(result);
    // The first weights and the final fetch are beside the steps.
    const double steps = static_cast<double>(kSteps);
    if (everywhere) {
      const double expected = 2.0 * (kWorkers - 1) / kWorkers * model * steps;
      const double extra = 2.0 * (kWorkers - 1) / kWorkers * model;
      for (int rank = 1; rank < kWorkers; ++rank) {
        const auto r = static_cast<std::size_t>(rank);
        EXPECT_NEAR(static_cast<double>(result.wire_bytes_sent[r]) - extra, expected,
                    0.02 * expected);
        EXPECT_NEAR(static_cast<double>(result.wire_bytes_received[r]) - extra, expected,
                    0.02 * expected);
      }
    } else {
      const double expected = kWorkers * model * steps;
      EXPECT_NEAR(static_cast<double>(result.wire_bytes_received[kWorkers]) - model, expected,
                  0.02 * expected);
      EXPECT_NEAR(static_cast<double>(result.wire_bytes_sent[kWorkers]) - 2 * kWorkers * model,
                  expected, 0.02 * expected);
    }
  }
}

TEST(SlowWorker, AsyncAndSspKeepTheirPaceBspFallsBackupWorkersRecoverIt) {
  const auto kept = [](Settings settings) {
    SimulatedTraining training = training_of(settings);
    training.batches_per_epoch = 100 * static_cast<std::uint64_t>(settings.workers);
    training.batches = training.batches_per_epoch;
    training.jitter = 0;
    const double fast = simulate(training).batches_per_second();
    training.settings.slow = "3:5";
    return simulate(training).batches_per_second() / fast;
  };
  EXPECT_GE(kept(server_settings(4, "async")), 0.7);
  Settings ssp = server_settings(4, "ssp");
  ssp.server.gate.delay_bound = 100;
  EXPECT_GE(kept(ssp), 0.7);
  ssp.server.gate.delay_bound = 2;  // a short leash, a slow pace
  EXPECT_LT(kept(ssp), 0.4);
  EXPECT_LT(kept(server_settings(4, "bsp")), 0.25);
  EXPECT_GE(kept(server_settings(5, "quorum")), 0.7);
}

TEST(Start, MoreBlocksThanThereCanBeAreRefused) {
  SimulatedTraining training = training_of(server_settings(2, "bsp"));
  training.elements = kMaxKeys + 1;
  training.buckets = kMaxKeys + 1;
  const SimulatedResult result = simulate(training);
  ASSERT_TRUE(result.errors[1]);
  try {
    std::rethrow_exception(result.errors[1]);
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "the model is cut into 65537 blocks, and servers can tell 65536 apart; a larger "
                 "bucket_kb makes fewer");
  }
}

TEST(Start, MoreServersThanParametersAreRefused) {
  Settings settings = server_settings(2, "bsp");
  settings.server.servers = 11;
  SimulatedTraining training = training_of(settings);
  training.elements = 10;
  const SimulatedResult result = simulate(training);
  ASSERT_TRUE(result.errors[0]);
  try {
    std::rethrow_exception(result.errors[0]);
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "11 servers are more than the model has parameters; there can be 1 to 10");
  }
}

}  // namespace
}  // namespace starling
