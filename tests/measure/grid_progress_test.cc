#include "measure/grid_progress.h"

#include <gtest/gtest.h>

namespace starling {
namespace {

TEST(GridProgress, CountsRunsAndTheShareOfTheOneUnderWay) {
  GridProgress progress("a grid");
  progress.expect(4);
  progress.begin("first");
  EXPECT_DOUBLE_EQ(progress.share(0.5), 0.125);
  EXPECT_EQ(progress.describe(0), "1 of 4: first");  // nothing is known of the time yet
  progress.end("a/first");
  progress.end("a/second", true);
  progress.begin("third");
  EXPECT_DOUBLE_EQ(progress.share(0), 0.5);
  EXPECT_NE(progress.describe(0.5).find("3 of 4, "), std::string::npos);
  EXPECT_NE(progress.describe(0.5).find(" left: third"), std::string::npos);
  EXPECT_EQ(progress.done(), (std::vector<std::filesystem::path>{"a/first", "a/second"}));
}

TEST(GridProgress, LearnsNothingOfTheTimeFromRunsThatWereMeasuredBefore) {
  GridProgress progress("a grid");
  progress.expect(4);
  progress.begin("first");
  progress.end("a/first", true);
  progress.begin("second");
  EXPECT_EQ(progress.describe(0), "2 of 4: second");
}

}  // namespace
}  // namespace starling
