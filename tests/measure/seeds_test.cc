#include "measure/seeds.h"

#include <gtest/gtest.h>

namespace starling {
namespace {

TEST(Sample, HasMeanAndDeviation) {
  const Sample sample{{0.25, 0.5, 0.75}};
  EXPECT_DOUBLE_EQ(sample.mean(), 0.5);
  EXPECT_DOUBLE_EQ(sample.deviation(), 0.25);
  EXPECT_EQ(sample.low(), 0.25);
  EXPECT_EQ(sample.high(), 0.75);
  EXPECT_EQ(format_percent(sample), "50.00 ± 25.00 %");
}

TEST(Sample, OfASingleValueHasNoSpread) {
  const Sample sample{{0.9731}};
  EXPECT_EQ(sample.deviation(), 0);
  EXPECT_EQ(format_percent(sample), "97.31 %");
}

}  // namespace
}  // namespace starling
