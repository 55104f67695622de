// Which share of what exchanging is worth a setting recovers.
#include "measure/gap.h"

#include <gtest/gtest.h>

namespace starling {
namespace {

TEST(Gap, IsRecoveredInSharesOfWhatLiesBetween) {
  // Bits per character, of which fewer are better.
  EXPECT_DOUBLE_EQ(share_of_gap(2.82, 2.82, 1.94), 0);
  EXPECT_DOUBLE_EQ(share_of_gap(1.94, 2.82, 1.94), 1);
  EXPECT_NEAR(share_of_gap(2.16, 2.82, 1.94), 0.75, 1e-9);
  EXPECT_NEAR(share_of_gap(3.04, 2.82, 1.94), -0.25, 1e-9) << "worse than never talking";
  // Accuracy, of which more is better.
  EXPECT_NEAR(share_of_gap(0.89, 0.85, 0.90), 0.8, 1e-9);
  EXPECT_NEAR(share_of_gap(0.91, 0.85, 0.90), 1.2, 1e-9) << "better than all-reduce";
}

using Flags = std::vector<bool>;

TEST(Gap, HasAFrontOfWhatNothingBeatsInBoth) {
  EXPECT_EQ(front_of({{100, 0.5}, {10, 0.4}, {50, 0.3}, {200, 1}}),
            (Flags{true, true, false, true}));
  EXPECT_EQ(front_of({{10, 0.4}, {10, 0.5}, {20, 0.5}}), (Flags{false, true, false}));
  EXPECT_EQ(front_of({{10, 0.5}, {10, 0.5}}), (Flags{true, true})) << "neither beats the other";
  EXPECT_EQ(front_of({}), Flags{});
}

TEST(Gap, HasABestForSoManyBytes) {
  const std::vector<Recovered> points = {{100, 0.9}, {10, 0.6}, {5, 0.7}, {1, 0.1}};
  EXPECT_EQ(best_within(points, 1000), 0u);
  EXPECT_EQ(best_within(points, 100), 0u) << "as many are not too many";
  EXPECT_EQ(best_within(points, 99), 2u);
  EXPECT_EQ(best_within(points, 4), 3u);
  EXPECT_EQ(best_within(points, 0.5), std::nullopt);
}

}  // namespace
}  // namespace starling
