#include "launch/host_book.h"

#include <gtest/gtest.h>

namespace starling {
namespace {

using std::chrono::seconds;
using Counts = std::map<std::string, int>;

constexpr HostBook::Moment kStart{};

TEST(HostBook, FillsHostsInTheOrderInWhichTheyCame) {
  HostBook book(5);
  book.set({{"b", 2}});
  EXPECT_EQ(book.wanted(kStart), (Counts{{"b", 2}}));
  book.set({{"a", 4}, {"b", 3}});  // who is there stays there
  EXPECT_EQ(book.wanted(kStart), (Counts{{"b", 3}, {"a", 2}}));
  book.set({{"a", 4}});
  EXPECT_EQ(book.wanted(kStart), (Counts{{"a", 4}}));
  book.set({});
  EXPECT_EQ(book.wanted(kStart), Counts{});
}

TEST(HostBook, BlacklistsForGoodWhereThereIsNoCooldown) {
  HostBook book(8);
  book.set({{"a", 2}, {"b", 2}});
  EXPECT_TRUE(book.note_failure("a", kStart + seconds(1)));
  EXPECT_EQ(book.wanted(kStart + seconds(100'000)), (Counts{{"b", 2}}));
}

TEST(HostBook, NeverBlacklistsTheLastHost) {
  HostBook book(8);
  book.set({{"a", 2}, {"b", 2}});
  EXPECT_TRUE(book.note_failure("a", kStart + seconds(1)));
  EXPECT_FALSE(book.note_failure("b", kStart + seconds(1)));
  EXPECT_EQ(book.wanted(kStart + seconds(2)), (Counts{{"b", 2}}));
}

TEST(HostBook, CoolsDownTwiceAsLongEachTimeUpToTheMost) {
  HostBook book(8, Cooldown{seconds(10), seconds(30)});
  book.set({{"a", 1}, {"b", 1}});
  HostBook::Moment now = kStart + seconds(1);
  for (const int wait : {10, 20, 30, 30}) {
    EXPECT_TRUE(book.note_failure("a", now));
    EXPECT_TRUE(book.note_failure("a", now));  // its other workers' ends are no new failure
    EXPECT_EQ(book.wanted(now + seconds(wait - 1)).count("a"), 0u) << wait;
    EXPECT_EQ(book.wanted(now + seconds(wait)).count("a"), 1u) << wait;
    now += seconds(wait);
  }
}

}  // namespace
}  // namespace starling
