#include "base/error.h"

#include <gtest/gtest.h>

#include "base/check.h"

namespace starling {
namespace {

TEST(Error, SaysWhatWentWrongAndWhatToDoInOneLine) {
  EXPECT_STREQ(Error("the disk is full").what(), "the disk is full");
  EXPECT_STREQ(Error("the disk is full", "make room").what(), "the disk is full; make room");
}

TEST(Error, OfALostPeerNamesTheRank) {
  try {
    throw PeerLost(3, "rank 3 was lost in a test", "start again");
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rank 3 was lost in a test; start again");
    EXPECT_EQ(dynamic_cast<const PeerLost&>(error).rank(), 3);
  }
}

TEST(CheckDeathTest, StopsTheProgramWithThePlaceAndTheReason) {
  const int ranks = 3;
  STARLING_CHECK(ranks == 3, "this does not stop");
  EXPECT_DEATH(STARLING_CHECK(ranks == 4, "there are {} ranks", ranks),
               R"(error_test\.cc:[0-9]+: broken invariant \(ranks == 4\): there are 3 ranks)");
}

}  // namespace
}  // namespace starling
