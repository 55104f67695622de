// The stream of frames between two ranks, one of them under the test's own hand.
#include "net/connection.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <list>
#include <optional>
#include <set>

#include "base/error.h"
#include "tests/net/channels.h"
#include "tests/net/raw_peer.h"

namespace starling {
namespace {

using Kind = FrameHeader::Kind;

std::string failure_of(const Operation& operation) {
  try {
    operation.await_resume();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// A message in the fragments that a rank would send it in.
void put_message(std::vector<std::byte>& text, Channel channel, std::uint64_t bytes,
                 std::byte value = {}) {
  do {
    const std::size_t fragment = fragment_bytes(bytes);
    RawPeer::put(text, RawPeer::header(channel.id, bytes), fragment, value);
    bytes -= fragment;
  } while (bytes > 0);
}

std::uint64_t received_bytes(RawPeer& peer) {
  return peer.comm().ledger().total_with(1, Direction::received).wire;
}

TEST(Connection, DeliversAnEmptyMessageBehindALongFragment) {
  RawPeer peer;
  constexpr std::size_t kLong = 100'000;
  std::vector<std::byte> text, in(kLong);
  put_message(text, kOne, kLong, std::byte{7});
  put_message(text, kTwo, 0);
  auto long_one = peer.comm().receive(1, kOne, Bytes(in));
  auto empty = peer.comm().receive(1, kTwo, Bytes());
  peer.say(text);
  peer.until_done(long_one);
  peer.until_done(empty);
  EXPECT_EQ(in.back(), std::byte{7});
}

TEST(Connection, BreaksAtAFrameThatMakesNoSense) {
  FrameHeader foreign, endless = RawPeer::header(kOne.id, ~std::uint64_t{0}), aimless, unheard_of;
  foreign.magic = 0x1234;
  aimless.purpose = kPurposeNames.size();
  unheard_of.kind = static_cast<Kind>(99);
  for (const FrameHeader& frame : {foreign, endless, aimless, unheard_of}) {
    RawPeer peer;
    int word = 0;
    auto receive = peer.comm().receive(1, kOne, object_bytes(word));
    peer.say(frame);
    peer.until_done(receive);
    EXPECT_TRUE(failure_of(receive).starts_with("rank 1 was lost in a test (it sent a frame "))
        << failure_of(receive);
  }
}

TEST(Connection, BlamesNobodyWhoIsNotThere) {
  for (const std::uint32_t nobody : {99u, 0xba0d7f00u, ~0u}) {
    RawPeer peer;
    int word = 0;
    auto receive = peer.comm().receive(1, kOne, object_bytes(word));
    peer.say(RawPeer::header(nobody, 0, Kind::abort));
    peer.until_done(receive);
    EXPECT_TRUE(failure_of(receive).starts_with("rank 1 was lost in a test ("))
        << failure_of(receive);
  }
}

constexpr std::size_t kQuarter = Inbox::kStoredLimitBytes / 4;

TEST(Connection, ReadsOnWhenAReceiveIsServedFromTheFullStore) {
  RawPeer peer;  // which does not listen when it is asked to hold a channel back
  std::vector<std::byte> text;
  for (int i = 1; i <= 6; ++i) put_message(text, kOne, kQuarter, static_cast<std::byte>(i));
  put_message(text, kTwo, sizeof(int), std::byte{1});
  int word = 0;
  auto wait = peer.comm().receive(1, kTwo, object_bytes(word));
  peer.say(text);
  peer.until_stuck();
  ASSERT_FALSE(wait.done());
  std::vector<std::byte> in(kQuarter);
  for (int i = 1; i <= 3; ++i) {
    auto receive = peer.comm().receive(1, kOne, Bytes(in));
    ASSERT_TRUE(receive.done()) << "it was here";
    EXPECT_EQ(in, std::vector<std::byte>(kQuarter, static_cast<std::byte>(i)));
  }
  peer.until_done(wait);
  EXPECT_EQ(word, 0x01010101);
  for (int i = 4; i <= 6; ++i) {
    auto receive = peer.comm().receive(1, kOne, Bytes(in));
    peer.until_done(receive);
    EXPECT_EQ(in, std::vector<std::byte>(kQuarter, static_cast<std::byte>(i)));
  }
}

TEST(Connection, KeepsNoMoreThanItsLimitOfWhatNobodyAskedFor) {
  RawPeer peer;
  std::vector<std::byte> text;
  put_message(text, kOne, 2 * Inbox::kStoredLimitBytes);
  auto wait = peer.comm().receive(1, kTwo, Bytes());
  peer.say(text);
  peer.until_stuck();
  EXPECT_LE(received_bytes(peer), Inbox::kStoredLimitBytes + kFragmentBytes);
  EXPECT_GT(received_bytes(peer), Inbox::kStoredLimitBytes - 2 * kFragmentBytes);
}

TEST(Connection, KeepsNoEndlessNumberOfEmptyMessages) {
  RawPeer peer;
  std::vector<std::byte> text;
  for (int i = 0; i < 40'000; ++i) put_message(text, kOne, 0);
  auto wait = peer.comm().receive(1, kTwo, Bytes());
  peer.say(text);
  peer.until_stuck();
  const std::uint64_t most = Inbox::kStoredLimitBytes / Inbox::kMessageCostBytes;
  EXPECT_LE(received_bytes(peer), (most + 10) * sizeof(FrameHeader) + kCallerHandshakeBytes);
}

TEST(Connection, NoticesTheEndOfAPeerWhileTheStoreIsFull) {
  RawPeer peer;
  std::vector<std::byte> text;
  put_message(text, kOne, 2 * Inbox::kStoredLimitBytes);
  auto wait = peer.comm().receive(1, kTwo, Bytes());
  peer.say(text);
  peer.until_stuck();
  ASSERT_FALSE(wait.done());
  peer.socket().close();
  peer.until_done(wait);
  EXPECT_NE(failure_of(wait).find("rank 1 was lost in another test"), std::string::npos);
}

// A peer that has filled the store is asked to hold back, and to go on when its turn has come.
TEST(Connection, AsksForAChannelsHoldAndItsResumption) {
  RawPeer peer;
  constexpr std::size_t kLength = Inbox::kHoldAboveBytes + 5 * kFragmentBytes;
  std::vector<std::byte> text;
  put_message(text, kOne, kLength, std::byte{3});
  auto wait = peer.comm().receive(1, kTwo, Bytes());
  peer.say(text);
  const FrameHeader hold = peer.hear_header();
  EXPECT_EQ(hold.kind, Kind::hold);
  EXPECT_EQ(hold.channel, kOne.id);
  std::vector<std::byte> in(kLength);
  auto receive = peer.comm().receive(1, kOne, Bytes(in));
  const FrameHeader resume = peer.hear_header();
  EXPECT_EQ(resume.kind, Kind::resume);
  EXPECT_EQ(resume.channel, kOne.id);
  peer.until_done(receive);
  EXPECT_EQ(in, std::vector<std::byte>(kLength, std::byte{3}));
  EXPECT_EQ(peer.comm().ledger().count(1, Direction::sent, Purpose::control).wire,
            peer.link().kernel_info().sent_bytes);
}

// The rank has nothing to wait for but the peer's leave to send.
TEST(Connection, ReadsTheWordToGoOnBehindAMessageThatNobodyWants) {
  RawPeer peer;
  int word = 0;
  auto first = peer.comm().send(1, kOne, object_bytes(word));
  peer.until_done(first);
  const std::uint64_t before = received_bytes(peer);
  peer.say(RawPeer::header(kOne.id, 0, Kind::hold));
  peer.until([&] { return received_bytes(peer) > before; });
  auto held = peer.comm().send(1, kOne, object_bytes(word));
  EXPECT_FALSE(held.done());
  std::vector<std::byte> text;
  put_message(text, kTwo, 100);
  RawPeer::put(text, RawPeer::header(kOne.id, 0, Kind::resume));
  peer.say(text);
  peer.until_done(held);
}

// The receive goes when a part of a fragment has landed, in a message of one fragment and of three.
// It cannot be lost any more, so what is lost is whoever missed it.
TEST(Connection, ThatGivesUpOnAccountOfOneThatHasLeftIsLostItself) {
  RawPeer peer(3);
  int word = 0, other = 0;
  auto from_last = peer.comm().receive(2, kOne, object_bytes(other));
  std::vector<std::byte> goodbye;
  RawPeer::put(goodbye, RawPeer::header(0, 0, Kind::goodbye));
  asio::write(peer.last_socket(), asio::buffer(goodbye));
  peer.until_done(from_last);
  EXPECT_EQ(failure_of(from_last), "rank 2 was lost in a test (it has left)");
  auto receive = peer.comm().receive(1, kOne, object_bytes(word));
  peer.say(RawPeer::header(2, 0, Kind::abort));
  peer.until_done(receive);
  EXPECT_EQ(failure_of(receive), "rank 1 was lost in a test (it gave up because of rank 2)");
}

TEST(Connection, ReadsOnBehindAReceiveWithdrawnWithinAFragment) {
  for (const std::size_t length : {std::size_t{1000}, 2 * kFragmentBytes + 1000}) {
    RawPeer peer;
    std::vector<std::byte> text;
    put_message(text, kOne, length, std::byte{1});
    put_message(text, kOne, sizeof(int), std::byte{2});
    const auto cut = text.begin() + sizeof(FrameHeader) + 400;
    std::vector<std::byte> in(length, std::byte{9});
    {
      auto receive = peer.comm().receive(1, kOne, Bytes(in));
      peer.say({text.begin(), cut});
      peer.until([&] { return in[399] == std::byte{1}; });
    }
    int word = 0;
    auto next = peer.comm().receive(1, kOne, object_bytes(word));
    peer.say({cut, text.end()});
    peer.until_done(next);
    EXPECT_EQ(word, 0x02020202);
    EXPECT_EQ(in[400], std::byte{9}) << "its memory was the caller's again";
  }
}

// What is left of a send when it goes must still be sent, though its memory may be used again. In
// its first fragment or in a later one.
TEST(Connection, SendsTheRestOfAMessageWithdrawnWithinAFragment) {
  for (const std::size_t length : {kFragmentBytes, std::size_t{16 << 20}}) {
    RawPeer peer;
    if (length == kFragmentBytes) {
      const int few_bytes = 4096;
      ::setsockopt(peer.link().descriptor(), SOL_SOCKET, SO_SNDBUF, &few_bytes, sizeof few_bytes);
      peer.socket().set_option(asio::socket_base::receive_buffer_size(few_bytes));
    }
    {
      std::vector<std::byte> out(length, std::byte{5});
      auto send = peer.comm().send(1, kOne, std::span(out));
      ASSERT_FALSE(send.done());
      auto behind = peer.comm().send(1, kOne, std::span(out).first(10));  // never leaves
      out.assign(length, std::byte{6});
    }
    int word = 0x07070707;
    auto next = peer.comm().send(1, kOne, object_bytes(word));
    bool changed = false;
    for (std::size_t left = length; left > 0;) {
      const FrameHeader header = peer.hear_header();
      ASSERT_EQ(header.magic, FrameHeader::kMagic);
      ASSERT_EQ(header.remaining_bytes, left);
      const std::vector<std::byte> heard = peer.hear(fragment_bytes(left));
      const auto change = std::ranges::find(heard, std::byte{6});
      ASSERT_EQ(std::count(heard.begin(), change, changed ? std::byte{6} : std::byte{5}),
                change - heard.begin());
      ASSERT_EQ(std::count(change, heard.end(), std::byte{6}), heard.end() - change);
      changed = changed || change != heard.end();
      left -= heard.size();
    }
    EXPECT_TRUE(changed) << "it was withdrawn with its last bytes";
    EXPECT_EQ(peer.hear_header().remaining_bytes, sizeof word);
    EXPECT_EQ(peer.hear(sizeof word), std::vector<std::byte>(sizeof word, std::byte{7}));
  }
}

// Two channels take turns, so that one of them is between two fragments when the socket is full.
TEST(Connection, SendsTheRestOfAMessageWithdrawnBetweenItsFragments) {
  RawPeer peer;
  constexpr std::size_t kLength = 16 << 20;
  std::size_t heard = 0;
  std::set<std::uint32_t> channels;
  const auto hear_fragment = [&] {
    const FrameHeader header = peer.hear_header();
    ASSERT_EQ(header.magic, FrameHeader::kMagic);
    channels.insert(header.channel);
    heard += peer.hear(fragment_bytes(header.remaining_bytes)).size();
  };
  {
    const std::vector<std::byte> out(kLength);
    auto one = peer.comm().send(1, kOne, std::span(out));
    auto two = peer.comm().send(1, kTwo, std::span(out));
    while (channels.size() < 2) ASSERT_NO_FATAL_FAILURE(hear_fragment());
    for (int i = 0; i < 100; ++i) peer.loop().poll();
    ASSERT_FALSE(one.done() || two.done());
  }
  while (heard < 2 * kLength) ASSERT_NO_FATAL_FAILURE(hear_fragment());
}

// Neither after a send that was withdrawn, nor after one that failed because another rank was lost.
TEST(Connection, SaysNoGoodbyeInTheMiddleOfAFragment) {
  for (const bool loses_another : {false, true}) {
    RawPeer peer(3);
    constexpr std::size_t kLength = 16 << 20;
    const std::vector<std::byte> out(kLength, std::byte{5});
    {
      auto send = peer.comm().send(1, kOne, std::span(out));
      ASSERT_FALSE(send.done());
      if (loses_another) {
        peer.last_socket().close();
        peer.until_done(send);
      }
    }
    // There is room for a goodbye now, though the outbox does not know.
    std::vector<std::byte> heard(100'000);
    heard.resize(peer.socket().read_some(asio::buffer(heard)));
    peer.leave();
    std::vector<std::byte> rest(2 * kLength);
    asio::error_code error;
    peer.socket().non_blocking(false);
    rest.resize(asio::read(peer.socket(), asio::buffer(rest), error));
    heard.insert(heard.end(), rest.begin(), rest.end());
    std::size_t at = 0;
    for (std::size_t left = kLength; heard.size() - at >= sizeof(FrameHeader);) {
      FrameHeader header;
      std::copy_n(heard.begin() + static_cast<std::ptrdiff_t>(at), sizeof header,
                  object_bytes(header).begin());
      at += sizeof header;
      ASSERT_EQ(header.kind, Kind::message) << "at " << at << " of " << heard.size();
      const std::size_t fragment = std::min(fragment_bytes(left), heard.size() - at);
      for (std::size_t i = at; i < at + fragment; ++i) ASSERT_EQ(heard[i], std::byte{5}) << i;
      at += fragment;
      left -= fragment;
    }
  }
}

TEST(Connection, SaysGoodbyeBetweenFragments) {
  RawPeer peer;
  peer.leave();
  EXPECT_EQ(peer.hear_header().kind, Kind::goodbye);
  EXPECT_TRUE(peer.hear(1).empty());
}

// The write that fails is the first we see of its end; its last word lies unread behind a message.
TEST(Connection, ReadsOnWhoseAccountAPeerLeftWhenAWriteFails) {
  RawPeer peer(3);
  std::vector<std::byte> text;
  put_message(text, kTwo, 100);
  RawPeer::put(text, RawPeer::header(2, 0, Kind::abort));
  peer.say(text);
  ASSERT_EQ(peer.unsaid_bytes(), 0u);
  peer.socket().set_option(asio::socket_base::linger(true, 0));
  peer.socket().close();
  int word = 0;
  auto send = peer.comm().send(1, kOne, object_bytes(word));
  peer.until_done(send);
  EXPECT_EQ(failure_of(send), "rank 2 was lost in a test (rank 1 reported it)");
}

// Headers and payloads in pieces of every size, several in one piece.
TEST(Connection, ReadsFramesHoweverTheyAreCut) {
  std::vector<std::byte> text;
  const std::vector<std::size_t> lengths = {0, 1, 15, 16, 17, 0, 0, 1000, 20'000, 0, 3};
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    put_message(text, Channel{static_cast<std::uint32_t>(i)}, lengths[i],
                static_cast<std::byte>(i));
  }
  for (const std::size_t piece : {1u, 7u, 16u, 17u, 33u, 1000u, 19'000u, 100'000u}) {
    RawPeer peer;
    std::vector<std::vector<std::byte>> in;
    std::list<Receive> receives;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      in.emplace_back(lengths[i]);
      receives.emplace_back(peer.comm(), 1, Channel{static_cast<std::uint32_t>(i)}, Bytes(in[i]));
    }
    for (std::size_t at = 0; at < text.size(); at += piece) {
      const auto from = text.begin() + static_cast<std::ptrdiff_t>(at);
      peer.say({from, from + static_cast<std::ptrdiff_t>(std::min(piece, text.size() - at))});
      peer.loop().poll();
    }
    std::size_t i = 0;
    for (const Receive& receive : receives) {
      peer.until_done(receive);
      EXPECT_EQ(in[i], std::vector<std::byte>(lengths[i], static_cast<std::byte>(i))) << i;
      ++i;
    }
  }
}

// The first fragment said how long the message is; the second one claims more.
TEST(Connection, BreaksAtAFragmentThatIsLongerThanItsMessage) {
  for (const bool is_posted : {true, false}) {
    RawPeer peer;
    int word = 0;
    std::vector<std::byte> text, in(kFragmentBytes + 10);
    RawPeer::put(text, RawPeer::header(kOne.id, in.size()), kFragmentBytes);
    RawPeer::put(text, RawPeer::header(kOne.id, 20), 20);
    auto other = peer.comm().receive(1, kTwo, object_bytes(word));
    std::optional<Receive> receive;
    if (is_posted) receive.emplace(peer.comm(), 1, kOne, Bytes(in));
    peer.say(text);
    peer.until_done(other);
    EXPECT_TRUE(failure_of(other).starts_with("rank 1 was lost in another test ("))
        << failure_of(other);
  }
}

}  // namespace
}  // namespace starling
