#include "launch/programs.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/error_of.h"

namespace starling {
namespace {

TEST(Programs, AreFoundBesideThisOne) {
  EXPECT_EQ(own_program().filename(), "launch_test");
  EXPECT_TRUE(has_sibling_program("launch_test"));
  EXPECT_EQ(sibling_program("launch_test"), own_program());
}

TEST(Programs, ThatAreNotThereAreNamed) {
  EXPECT_FALSE(has_sibling_program("starling-nonsense"));
  const std::string words = error_of([] { sibling_program("starling-nonsense"); });
  EXPECT_NE(words.find("starling-nonsense is missing"), std::string::npos) << words;
}

}  // namespace
}  // namespace starling
