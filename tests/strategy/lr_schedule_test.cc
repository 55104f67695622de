#include "strategy/lr_schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace starling {
namespace {

using enum LrSchedule::Kind;

// Ten steps an epoch, four epochs.
double share(const LrSchedule& schedule, std::uint64_t at) { return schedule.share(at, 10, 40); }

TEST(LrShare, IsAllOfItWhereNobodySaysOtherwise) {
  for (std::uint64_t at : {0, 1, 39, 1000}) EXPECT_EQ(share({}, at), 1);
}

TEST(LrShare, FallsInSteps) {
  const LrSchedule schedule{.kind = step, .step_epochs = 1.5, .decay = 0.5};
  EXPECT_EQ(share(schedule, 0), 1);
  EXPECT_EQ(share(schedule, 14), 1);
  EXPECT_EQ(share(schedule, 15), 0.5);
  EXPECT_EQ(share(schedule, 29), 0.5);
  EXPECT_EQ(share(schedule, 30), 0.25);
}

TEST(LrShare, FollowsHalfACosineToItsEnd) {
  for (double end : {0.0, 0.1}) {
    const LrSchedule schedule{.kind = cosine, .end = end};
    EXPECT_EQ(share(schedule, 0), 1);
    EXPECT_NEAR(share(schedule, 10), end + (1 - end) * (1 + std::sqrt(0.5)) / 2, 1e-12);
    EXPECT_NEAR(share(schedule, 20), (1 + end) / 2, 1e-12);
    EXPECT_NEAR(share(schedule, 40), end, 1e-12);
    EXPECT_NEAR(share(schedule, 55), end, 1e-12) << "and does not rise again";
  }
}

TEST(LrShare, WarmsUpFirst) {
  for (const LrSchedule::Kind kind : {constant, step, cosine}) {
    const LrSchedule schedule{.kind = kind, .warmup_epochs = 0.5};
    EXPECT_NEAR(share(schedule, 0), 0.2, 1e-12) << kind;
    EXPECT_NEAR(share(schedule, 3), 0.8, 1e-12) << kind;
    EXPECT_NEAR(share(schedule, 4), 1, 1e-12) << kind;
    EXPECT_NEAR(share(schedule, 5), 1, 1e-12) << kind << ": where the cosine begins";
  }
}

TEST(LrShare, IsAShareHoweverShortTheRun) {
  for (const LrSchedule::Kind kind : {constant, step, cosine}) {
    const LrSchedule schedule{.kind = kind, .warmup_epochs = 3};
    for (std::uint64_t steps : {0, 1}) {
      const double of_all = schedule.share(0, steps, steps);
      EXPECT_TRUE(of_all > 0 && of_all <= 1) << kind;
    }
  }
}

}  // namespace
}  // namespace starling
