#include <gtest/gtest.h>

#include <cmath>

#include "plan/simulated_training.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

SimulatedTraining ring_training(int workers) {
  SimulatedTraining training;
  training.settings.strategy = StrategyKind::ring_leader;
  training.settings.workers = workers;
  training.settings.optimizer.lr = 0.1;
  training.network.standard = {1e8, 100us};
  training.noise = 0.5;
  training.jitter = 0.5;
  training.batches = 40 * static_cast<std::uint64_t>(workers);
  return training;
}

// Plain SGD, in which each step takes the gradients of those workers whose batches were used.
std::vector<double> plain_sgd(const SimulatedTraining& training, int lost,
                              std::uint64_t lost_from) {
  const auto workers = static_cast<std::uint64_t>(training.settings.workers);
  std::vector<double> weights(training.elements);
  for (std::uint64_t step = 0; step < training.batches / workers; ++step) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      double sum = 0, count = 0;
      for (std::uint64_t worker = 0; worker < workers; ++worker) {
        if (static_cast<int>(worker) == lost && step >= lost_from) continue;
        sum += weights[i] - static_cast<double>(simulated_target(i)) +
               static_cast<double>(simulated_noise(training, step * workers + worker, i));
        ++count;
      }
      weights[i] -= training.settings.optimizer.lr * sum / count;
    }
  }
  return weights;
}

double largest_difference(const std::vector<float>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - b[i]));
  }
  return largest;
}

TEST(RingLeader, IsPlainSgd) {
  for (int workers : {1, 2, 3, 5, 8}) {
    for (std::size_t elements : {1u, 7u, 1000u}) {
      SimulatedTraining training = ring_training(workers);
      training.elements = elements;
      const SimulatedResult result = simulate(training);
      for (int rank = 0; rank < workers; ++rank) {
        ASSERT_FALSE(result.errors[static_cast<std::size_t>(rank)]);
        EXPECT_LT(largest_difference(result.weights[static_cast<std::size_t>(rank)],
                                     plain_sgd(training, -1, 0)),
                  1e-5);
      }
    }
  }
}

// Whoever is lost, leader or not, and whenever: the others repeat the step and end with the same
// model, that of training without it from some step on.
TEST(RingLeader, ALostWorkerOrLeaderIsReplacedAndTheStepRepeated) {
  for (int workers : {2, 3, 5}) {
    for (int lost = 0; lost < workers; ++lost) {
      for (Time when = 150ms; when < 165ms; when += 370us) {
        SCOPED_TRACE(testing::Message()
                     << workers << " workers, rank " << lost << " at " << when.count() << " ns");
        SimulatedTraining training = ring_training(workers);
        training.faults.crashes.push_back({lost, when});
        const SimulatedResult result = simulate(training);
        double best = 1e9;
        const auto survivor = static_cast<std::size_t>(lost == 0 ? 1 : 0);
        for (std::uint64_t from = 5; from < 16; ++from) {
          best = std::min(
              best, largest_difference(result.weights[survivor], plain_sgd(training, lost, from)));
        }
        EXPECT_LT(best, 1e-5);
        for (int rank = 0; rank < workers; ++rank) {
          const auto r = static_cast<std::size_t>(rank);
          ASSERT_FALSE(result.errors[r]);
          if (rank == lost) continue;
          EXPECT_EQ(result.weights[r], result.weights[survivor]);
          EXPECT_EQ(result.batches[r], 40u);
        }
      }
    }
  }
}

TEST(RingLeader, TwoMayBeLostOneAfterTheOtherOrTogether) {
  for (const Time second : {Time(100ms), Time(100ms + 50us), Time(101ms), Time(250ms)}) {
    SimulatedTraining training = ring_training(5);
    training.faults.crashes.push_back({4, 100ms});
    training.faults.crashes.push_back({3, second});
    const SimulatedResult result = simulate(training);
    for (std::size_t rank : {0u, 1u, 2u}) {
      ASSERT_FALSE(result.errors[rank]);
      EXPECT_EQ(result.weights[rank], result.weights[0]);
      EXPECT_EQ(result.batches[rank], 40u);
    }
  }
}

}  // namespace
}  // namespace starling
