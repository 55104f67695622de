#include "strategy/schedule.h"

#include <gtest/gtest.h>

#include <vector>

namespace starling {
namespace {

using namespace std::chrono_literals;

std::vector<int> due_steps(Schedule schedule, int steps) {
  std::vector<int> due;
  for (int step = 1; step <= steps; ++step) {
    if (schedule.due()) due.push_back(step);
  }
  return due;
}

TEST(Schedule, IsDueAfterEveryPeriodthStep) {
  EXPECT_EQ(due_steps(Schedule({1, 1, 0}, Random{1}), 4), (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(due_steps(Schedule({3, 1, 0}, Random{1}), 10), (std::vector<int>{3, 6, 9}));
}

TEST(Schedule, IsDueWithItsProbability) {
  for (double probability : {0.02, 0.2, 0.5, 0.9}) {
    for (std::uint64_t period : {1, 4}) {
      const auto due = due_steps(Schedule({period, probability, 0}, Random{5}), 40'000);
      const double chances = 40'000.0 / static_cast<double>(period);
      // Four standard deviations.
      const double slack = 4 * std::sqrt(probability * (1 - probability) / chances);
      EXPECT_NEAR(static_cast<double>(due.size()) / chances, probability, slack);
      for (int step : due) EXPECT_EQ(step % static_cast<int>(period), 0);
    }
  }
}

TEST(Schedule, TheSameCoinGivesTheSameSteps) {
  const Schedule::Options options{2, 0.3, 0};
  EXPECT_EQ(due_steps(Schedule(options, Random{1}), 500),
            due_steps(Schedule(options, Random{1}), 500));
  EXPECT_NE(due_steps(Schedule(options, Random{1}), 500),
            due_steps(Schedule(options, Random{2}), 500));
}

TEST(Schedule, AdaptsOnlyIfARatioIsSet) {
  EXPECT_FALSE(Schedule({}, Random{1}).adapts());
  EXPECT_TRUE(Schedule({1, 1, 5}, Random{1}).adapts());
}

// Steps of 10 ms: the period that it settles at, from above and from below.
TEST(Schedule, ChoosesAPeriodAtWhichComputingTakesTheRatioOfMixing) {
  for (double ratio : {1.0, 5.0, 20.0}) {
    for (Time mixing : {1ms, 10ms, 37ms, 400ms}) {
      for (std::uint64_t first : {1, 4000}) {
        Schedule schedule({first, 1, ratio}, Random{1});
        for (int round = 0; round < 40; ++round) {
          const Time computing = 10ms * static_cast<Time::rep>(schedule.period());
          schedule.set_period(schedule.better_period(computing, mixing));
        }
        const double wanted = ratio * static_cast<double>(mixing.count()) / 1e7;
        EXPECT_GE(static_cast<double>(schedule.period()), std::min(1.0, wanted));
        EXPECT_GE(static_cast<double>(schedule.period()), wanted - 1e-9);
        EXPECT_LT(static_cast<double>(schedule.period()), wanted + 2);
      }
    }
  }
}

TEST(Schedule, GoesHalfOfTheWayToABetterPeriod) {
  const Schedule schedule({10, 1, 5}, Random{1});
  // 10 steps of 1 ms, and mixing 20 ms: every 100th step would be right.
  EXPECT_EQ(schedule.better_period(10ms, 20ms), 55u);
}

TEST(Schedule, OneSlowRoundDoesNotSilenceEverybodyForLong) {
  Schedule schedule({1, 1, 5}, Random{1});
  EXPECT_LE(schedule.better_period(1ms, 1h), 4096u);
  EXPECT_GE(schedule.better_period(0ms, 0ms), 1u);
  schedule.set_period(4096);
  int rounds = 0;
  while (schedule.period() > 2) {
    const Time computing = 10ms * static_cast<Time::rep>(schedule.period());
    schedule.set_period(schedule.better_period(computing, 1ms));
    ASSERT_LT(++rounds, 15);
  }
}

}  // namespace
}  // namespace starling
