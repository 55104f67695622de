// What all strategies have in common.
#include "strategy/strategy.h"

#include "tests/strategy/workers.h"

namespace starling {
namespace {

class StrategyTest : public testing::TestWithParam<const char*> {};

TEST_P(StrategyTest, StartGivesTheFirstWorkersWeightsToAll) {
  for (int size : kWorkerCounts) {
    Workers workers(settings_for(GetParam(), size), 101, 90);
    const Floats first = workers.weights[0];
    workers.start();
    for (const Floats& weights : workers.weights) EXPECT_EQ(weights, first) << size;
  }
}

TEST_P(StrategyTest, FinishGivesTheMeanToAllWithTheSameBits) {
  for (int size : kWorkerCounts) {
    Workers workers(settings_for(GetParam(), size), 101, 90);
    const std::vector<double> mean = mean_of(workers.weights);
    workers.finish();
    for (std::size_t i = 0; i < mean.size(); ++i) {
      EXPECT_NEAR(workers.weights[0][i], mean[i], 1e-6) << size;
    }
    for (const Floats& weights : workers.weights) EXPECT_EQ(weights, workers.weights[0]) << size;
  }
}

TEST_P(StrategyTest, AWorkerByItselfSendsNothing) {
  Workers workers(settings_for(GetParam(), 1), 101, 90);
  const Vectors weights = workers.weights, gradients = workers.gradients;
  workers.start();
  for (int step = 0; step < 5; ++step) {
    workers.after_backward(2);
    workers.after_update();
  }
  workers.finish();
  EXPECT_EQ(workers.sent_bytes(), 0u);
  EXPECT_EQ(workers.weights, weights);
  EXPECT_EQ(workers.gradients, gradients);
}

TEST_P(StrategyTest, GivesTheSameBitsInEveryRun) {
  const auto train = [] {
    Workers workers(settings_for(GetParam(), 5), 101, 90);
    workers.start();
    for (int step = 0; step < 5; ++step) {
      for (Floats& gradients : workers.gradients) {
        for (float& value : gradients) value *= 1.1f;
      }
      workers.after_backward(3);
      for (std::size_t rank = 0; rank < 5; ++rank) {
        for (std::size_t i = 0; i < 90; ++i) {
          workers.weights[rank][i] -= 0.1f * workers.gradients[rank][i];
        }
      }
      workers.after_update();
    }
    workers.finish();
    return workers.weights;
  };
  EXPECT_EQ(train(), train());
}

INSTANTIATE_TEST_SUITE_P(All, StrategyTest,
                         testing::Values("allreduce", "mix", "pairwise", "exponential", "local",
                                         "single"),
                         [](const auto& test) { return std::string(test.param); });

// Servers and the ring with a leader have hooks that need more than a step: they are tested by
// whole trainings, in tests/server and in ring_leader_test.cc.
TEST(Strategies, TheTestsAboveNameAllThereAre) {
  EXPECT_EQ(names_listed<StrategyKind>(),
            "allreduce, server, ring-leader, mix, pairwise, exponential, local, single");
}

// Decentral strategies leave the gradients alone, central ones the weights.
TEST(Strategies, ActOnGradientsOrOnWeightsButNotOnBoth) {
  for (const char* name : {"mix", "pairwise", "exponential", "local", "single"}) {
    Workers workers(settings_for(name, 5), 101, 90);
    const Vectors gradients = workers.gradients;
    workers.after_backward(2);
    EXPECT_EQ(workers.gradients, gradients) << name;
    EXPECT_EQ(workers.sent_bytes(), 0u) << name;
    workers.after_update();
    EXPECT_EQ(workers.sent_bytes(Purpose::weights), workers.sent_bytes()) << name;
  }
  Workers workers(settings_for("allreduce", 5), 101, 90);
  const Vectors weights = workers.weights;
  workers.after_update();
  EXPECT_EQ(workers.weights, weights);
  EXPECT_EQ(workers.sent_bytes(), 0u);
  workers.after_backward();
  EXPECT_EQ(workers.sent_bytes(Purpose::gradients), workers.sent_bytes());
  EXPECT_GT(workers.sent_bytes(), 0u);
}

}  // namespace
}  // namespace starling
