#include "runtime/majority.h"

#include <gtest/gtest.h>

#include <vector>

namespace starling {
namespace {

// One letter a rank: Here, Left, Silent, Dead.
bool may_go_on(const std::string& ranks) {
  std::vector<Presence> presences;
  for (char letter : ranks) {
    presences.push_back(letter == 'H'   ? Presence::here
                        : letter == 'L' ? Presence::left
                        : letter == 'S' ? Presence::silent
                                        : Presence::dead);
  }
  return may_go_on(presences);
}

TEST(Majority, MoreThanHalfGoOn) {
  EXPECT_TRUE(may_go_on("H"));
  EXPECT_TRUE(may_go_on("SHH"));
  EXPECT_TRUE(may_go_on("SSHHH"));
  EXPECT_TRUE(may_go_on("HHSH"));
}

TEST(Majority, LessThanHalfDoNot) {
  EXPECT_FALSE(may_go_on("HSS"));
  EXPECT_FALSE(may_go_on("SSH"));
  EXPECT_FALSE(may_go_on("HSSHS"));
  EXPECT_FALSE(may_go_on("SHSSS"));
}

TEST(Majority, HalfGoesOnOnlyWithTheLowestRank) {
  EXPECT_TRUE(may_go_on("HS"));
  EXPECT_FALSE(may_go_on("SH"));
  EXPECT_TRUE(may_go_on("HSSH"));
  EXPECT_FALSE(may_go_on("SHHS"));
}

TEST(Majority, WhoIsDeadOrHasLeftDoesNotCount) {
  EXPECT_TRUE(may_go_on("DDDH"));
  EXPECT_TRUE(may_go_on("DHS")) << "of two that count, it is the lower one";
  EXPECT_FALSE(may_go_on("DSH"));
  EXPECT_TRUE(may_go_on("LLSHH"));
  EXPECT_FALSE(may_go_on("LLSSH"));
}

// Whatever the network is cut into, and whoever has died, two sides never both go on.
TEST(Majority, OfTwoSidesOneGoesOnAtTheMost) {
  for (int size : {1, 2, 3, 4, 5, 6}) {
    const int splits = 1 << size;
    for (int dead = 0; dead < splits; ++dead) {
      for (int side = 0; side < splits; ++side) {
        std::string ours, theirs;
        for (int rank = 0; rank < size; ++rank) {
          const bool is_dead = dead >> rank & 1, on_our_side = side >> rank & 1;
          ours += is_dead ? 'D' : on_our_side ? 'H' : 'S';
          theirs += is_dead ? 'D' : on_our_side ? 'S' : 'H';
        }
        EXPECT_FALSE(may_go_on(ours) && may_go_on(theirs)) << ours;
        EXPECT_TRUE(may_go_on(ours) || may_go_on(theirs) || dead == splits - 1) << ours;
      }
    }
  }
}

}  // namespace
}  // namespace starling
