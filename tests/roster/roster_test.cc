#include "roster/roster.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"
#include "roster/message.h"

namespace starling {
namespace {

Roster roster_of(int size) {
  Roster roster;
  roster.generation = 7;
  for (int i = 0; i < size; ++i) {
    Member member;
    member.id = static_cast<std::uint64_t>(i) + 100;
    member.port = static_cast<std::uint32_t>(4000 + i);
    roster.members.push_back(member);
  }
  return roster;
}

std::vector<bool> places(int size, std::uint64_t bits) {
  std::vector<bool> set;
  for (int i = 0; i < size; ++i) set.push_back((bits >> i & 1) != 0);
  return set;
}

TEST(MayDecide, MostOrHalfWithTheLowest) {
  EXPECT_TRUE(may_decide(roster_of(3), places(3, 0b011), places(3, 0)));
  EXPECT_FALSE(may_decide(roster_of(3), places(3, 0b001), places(3, 0)));
  EXPECT_TRUE(may_decide(roster_of(4), places(4, 0b1001), places(4, 0)));
  EXPECT_FALSE(may_decide(roster_of(4), places(4, 0b0110), places(4, 0)));
  EXPECT_TRUE(may_decide(roster_of(4), places(4, 0b1000), places(4, 0b0111)));
  EXPECT_FALSE(may_decide(roster_of(4), places(4, 0), places(4, 0b1111)));
}

// Two sets that may decide have somebody in common who lives, or all of the earlier one are dead.
TEST(MayDecide, NoTwoSetsDecideApart) {
  for (int size = 1; size <= 6; ++size) {
    const std::uint64_t all = (std::uint64_t{1} << size) - 1;
    const Roster roster = roster_of(size);
    for (std::uint64_t first = 1; first <= all; ++first) {
      for (std::uint64_t dead = 0; dead <= all; ++dead) {
        for (std::uint64_t second = 1; second <= all; ++second) {
          if ((first & second) != 0 || (second & dead) != 0) continue;
          if ((first & ~dead) == 0) continue;  // nobody is left of the first
          const bool both = may_decide(roster, places(size, first), places(size, 0)) &&
                            may_decide(roster, places(size, second), places(size, dead));
          EXPECT_FALSE(both) << size << ": " << first << ", " << second << ", dead " << dead;
        }
      }
    }
  }
}

TEST(RosterMessage, ArrivesAsItWasSent) {
  Message message;
  message.kind = Message::Kind::promised;
  message.leaves = 1;
  message.step = 42;
  message.ballot = {3, 9};
  message.agreed_in = {2, 8};
  message.sender.id = 5;
  message.roster = roster_of(3);
  message.roster.begins_after = 11;
  message.guests = roster_of(2).members;
  message.text = "lr = 0.1";
  message.terms[3] = std::byte{7};
  const Message back = decode(encode(message));
  EXPECT_EQ(back.text, message.text);
  EXPECT_EQ(back.terms, message.terms);
  EXPECT_EQ(back.kind, message.kind);
  EXPECT_EQ(back.leaves, 1u);
  EXPECT_EQ(back.step, 42u);
  EXPECT_EQ(back.ballot, message.ballot);
  EXPECT_EQ(back.agreed_in, message.agreed_in);
  EXPECT_EQ(back.sender, message.sender);
  EXPECT_EQ(back.roster, message.roster);
  EXPECT_EQ(back.guests, message.guests);
}

// Whatever bytes come, they are a message or an error.
TEST(RosterMessage, NonsenseIsRefused) {
  Message message;
  message.roster = roster_of(3);
  const std::vector<std::byte> good = encode(message);
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_THROW(decode(std::span(good).first(size)), Error);
  }
  Random random{1};
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::byte> bytes = good;
    for (int i = 0; i < 3; ++i) {
      bytes[random.below(bytes.size())] = static_cast<std::byte>(random.bits());
    }
    try {
      decode(bytes);
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace starling
