// What the inbox keeps for whom, without a socket.
#include "net/inbox.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/chest.h"
#include "tests/error_of.h"
#include "tests/net/channels.h"
#include "tests/net/desk.h"

namespace starling {
namespace {

using Kind = FrameHeader::Kind;

// Fragments of one message each that find chest.
int put_while_there_is_room(Desk& desk) {
  int count = 0;
  while (count < 1000 && desk.put(kOne, kFragmentBytes)) ++count;
  return count;
}

TEST(Inbox, HasRoomAgainForAsMuchAsWasTaken) {
  Desk desk;
  auto wait = desk.receive(1, kTwo, Bytes());
  const int fit = put_while_there_is_room(desk);
  ASSERT_GT(fit, 100);
  ASSERT_LT(fit, 1000);
  std::vector<std::byte> in(kFragmentBytes);
  for (int times = 0; times < 3; ++times) {
    for (int i = 0; i < fit; ++i) {
      const auto receive = desk.receive(1, kOne, Bytes(in));
      ASSERT_TRUE(receive.done()) << "it was here";
    }
    ASSERT_EQ(put_while_there_is_room(desk), fit) << times;
  }
}

// The first fragment said how long the message is; the second one says another length.
TEST(Inbox, RefusesAFragmentThatDoesNotContinueItsMessage) {
  for (const std::uint64_t said : {0, 1, 9, 11}) {
    for (const bool is_posted : {true, false}) {
      Desk desk;
      std::vector<std::byte> in(kFragmentBytes + 10);
      auto wait = desk.receive(1, kTwo, Bytes());
      std::optional<Receive> receive;
      if (is_posted) receive.emplace(desk, 1, kOne, Bytes(in));
      ASSERT_TRUE(desk.put(kOne, in.size()));
      EXPECT_EQ(error_of([&] { desk.put(kOne, said); }),
                is_posted ? "rank 1 broke the protocol in a test"
                          : "a fragment says another length than its message")
          << said;
    }
  }
}

// What is thrown away is read like any other message.
TEST(Inbox, RefusesAFragmentThatDoesNotContinueWhatIsDiscarded) {
  Desk desk;
  std::vector<std::byte> in(kFragmentBytes + 10);
  std::optional<Receive> receive(std::in_place, desk, 1, kOne, Bytes(in));
  ASSERT_TRUE(desk.put(kOne, in.size()));
  receive.reset();
  EXPECT_EQ(error_of([&] { desk.put(kOne, 9); }),
            "a fragment says another length than its message");
  EXPECT_TRUE(desk.put(kOne, 10));
}

TEST(Inbox, AsksForAHoldOfWhatTakesTheSpaceAndForItsResumption) {
  Desk desk;
  auto wait = desk.receive(1, kTwo, Bytes());
  while (desk.told.empty()) ASSERT_TRUE(desk.put(kOne, kFragmentBytes));
  ASSERT_TRUE(desk.put(kOne, kFragmentBytes)) << "it was under way";
  EXPECT_EQ(desk.told, (decltype(desk.told){{Kind::hold, kOne.id}})) << "once";
  std::vector<std::byte> in(kFragmentBytes);
  { const auto receive = desk.receive(1, kOne, Bytes(in)); }
  EXPECT_EQ(desk.told, (decltype(desk.told){{Kind::hold, kOne.id}, {Kind::resume, kOne.id}}));
}

TEST(Inbox, ScattersAMessageToItsHeadAndToMemoryOfItsSize) {
  for (const std::size_t behind : {std::size_t{0}, std::size_t{1}, kFragmentBytes}) {
    for (const bool is_posted : {true, false}) {
      Desk desk;
      Chest chest;
      std::array<std::byte, 10> head{};
      auto wait = desk.receive(1, kTwo, Bytes());
      std::optional<Receive> receive;
      if (is_posted) receive.emplace(desk, 1, kOne, 2 * kFragmentBytes, chest, Bytes(head));
      ASSERT_TRUE(desk.put(kOne, head.size() + behind, std::byte{1}));
      if (behind == kFragmentBytes) {
        ASSERT_TRUE(desk.put(kOne, head.size(), std::byte{1}));
      }
      if (!is_posted) receive.emplace(desk, 1, kOne, 2 * kFragmentBytes, chest, Bytes(head));
      EXPECT_TRUE(receive->done());
      EXPECT_EQ(std::ranges::count(head, std::byte{1}), 10);
      EXPECT_EQ(chest.memory, std::vector<std::byte>(behind, std::byte{1}));
    }
  }
}

TEST(Inbox, HoldsAChannelBackWhoseReceiveHasNoRoomUntilItAsksAgain) {
  Desk desk;
  Chest chest;
  chest.is_full = true;
  Receive receive(desk, 1, kOne, 1000, chest);
  EXPECT_FALSE(desk.put(kOne, 1000, std::byte{1})) << "nobody waits for what is behind it";
  EXPECT_EQ(desk.told, (decltype(desk.told){{Kind::hold, kOne.id}}));
  auto wait = desk.receive(1, kTwo, Bytes());
  EXPECT_TRUE(desk.put(kOne, 1000, std::byte{1})) << "now somebody does";
  receive.ask_again();
  EXPECT_EQ(desk.told.size(), 1u) << "there is still no room";
  chest.is_full = false;
  receive.ask_again();
  EXPECT_TRUE(receive.done());
  EXPECT_EQ(chest.memory, std::vector<std::byte>(1000, std::byte{1}));
  EXPECT_EQ(desk.told, (decltype(desk.told){{Kind::hold, kOne.id}, {Kind::resume, kOne.id}}));
}

TEST(Inbox, PutsTheRestBehindWhatItHasKept) {
  Desk desk;
  auto wait = desk.receive(1, kTwo, Bytes());
  std::vector<std::byte> in(kFragmentBytes + 10), expected(in.size(), std::byte{1});
  ASSERT_TRUE(desk.put(kOne, in.size(), std::byte{1}));
  const auto receive = desk.receive(1, kOne, Bytes(in));
  ASSERT_FALSE(receive.done());
  ASSERT_TRUE(desk.put(kOne, 10, std::byte{2}));
  EXPECT_TRUE(receive.done());
  std::fill(expected.end() - 10, expected.end(), std::byte{2});
  EXPECT_EQ(in, expected);
}

}  // namespace
}  // namespace starling
