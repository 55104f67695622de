#include "base/slowness.h"

#include <gtest/gtest.h>

namespace starling {
namespace {

TEST(Slowness, IsWhoAndHowManyTimes) {
  const auto slow = parse_slowness("3:5");
  ASSERT_TRUE(slow);
  EXPECT_EQ(slow->who, 3);
  EXPECT_EQ(slow->factor, 5);
  EXPECT_EQ(parse_slowness("0:1.5")->factor, 1.5);
  EXPECT_EQ(parse_slowness("0:1000")->factor, 1000);
}

TEST(Slowness, IsNothingElse) {
  for (const char* text : {"", "3", "3:", ":5", "x:5", "3:x", "3:5x", "3;5", "-1:5", "3:0.5",
                           "3:1001", "3:-2", "3:nan", "99999999999:5", " 3:5", "3: 5"}) {
    EXPECT_FALSE(parse_slowness(text)) << text;
  }
}

}  // namespace
}  // namespace starling
