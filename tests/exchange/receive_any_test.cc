#include "exchange/receive_any.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "base/error.h"
#include "runtime/all.h"
#include "runtime/race.h"
#include "sim/cluster.h"
#include "tests/exchange/world.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

constexpr Channel kLetters{1, Purpose::control, "a letter"};
// Over MPI whoever has sent its letters is in the next test before they are read.
constexpr Channel kOtherLetters{3, Purpose::control, "another letter"};
constexpr std::size_t kElements = 100'000;  // more than a segment, so that two could mix

Task<> send_letters(Group group, Channel channel, int count) {
  for (int letter = 0; letter < count; ++letter) {
    const std::vector<int> values(kElements, 10 * group.rank() + letter);
    Send sending = group.send(0, channel, std::span<const int>(values));
    co_await sending;
  }
}

// All letters of all others, as they come.
Task<> read_letters(Group group, int count, std::vector<std::vector<int>>& read) {
  for (int i = 0; i < count * (group.size() - 1); ++i) {
    std::vector<int> values(kElements, -1);
    int from = -1;
    Task<> receiving = receive_any(group, kLetters, writable_bytes(std::span(values)), from);
    co_await receiving;
    EXPECT_EQ(std::ranges::count(values, values[0]), static_cast<std::ptrdiff_t>(kElements));
    EXPECT_EQ(values[0] / 10, from);
    read[static_cast<std::size_t>(from)].push_back(values[0] % 10);
  }
}

TEST(ReceiveAny, HearsAllWhoSendAtOnceOneAfterTheOther) {
  for (int n : {2, 3, 8}) {
    if (!World::can_have(n)) continue;
    std::vector<std::vector<int>> read(static_cast<std::size_t>(n));
    World world(n);
    world.run([&](Comm& comm) {
      return comm.rank() == 0 ? read_letters(comm, 3, read) : send_letters(comm, kLetters, 3);
    });
    for (int rank = 1; rank < n && world.known()[0] == 0; ++rank) {
      EXPECT_EQ(read[static_cast<std::size_t>(rank)], (std::vector<int>{0, 1, 2})) << "in order";
    }
  }
}

Task<> read_two_at_once(Group group, std::array<int, 2>& from) {
  std::vector<int> first(kElements), second(kElements);
  Running one(receive_any(group, kOtherLetters, writable_bytes(std::span(first)), from[0]));
  Running other(receive_any(group, kOtherLetters, writable_bytes(std::span(second)), from[1]));
  co_await one;
  co_await other;
  EXPECT_EQ(first[0], 10 * from[0]);
  EXPECT_EQ(second[kElements - 1], 10 * from[1]);
}

TEST(ReceiveAny, MayBePostedTwice) {
  if (!World::can_have(3)) return;
  std::array<int, 2> from{};
  World world(3);
  world.run([&](Comm& comm) {
    return comm.rank() == 0 ? read_two_at_once(comm, from) : send_letters(comm, kOtherLetters, 1);
  });
  if (world.known()[0] > 0) return;
  EXPECT_EQ(from[0] + from[1], 1 + 2);
  EXPECT_NE(from[0], from[1]);
}

Task<> read_one(Group group) {
  std::vector<int> values(7);
  int from = -1;
  Task<> receiving = receive_any(group, kLetters, writable_bytes(std::span(values)), from);
  co_await receiving;
}
Task<> wait_for_nothing(Group group) {
  int never = 0;
  Receive waiting = group.receive(0, {2, Purpose::control, "waiting"}, std::span(&never, 1));
  co_await waiting;
}

TEST(SimulatedReceiveAny, FailsWithTheRankThatIsLost) {
  Cluster cluster(3);
  cluster.crash(2, 1ms);
  const auto errors = cluster.try_run(
      [](Comm& comm) { return comm.rank() == 0 ? read_one(comm) : wait_for_nothing(comm); });
  ASSERT_NE(errors[0], nullptr);
  try {
    std::rethrow_exception(errors[0]);
  } catch (const PeerLost& lost) {
    EXPECT_EQ(lost.rank(), 2);
  }
}

}  // namespace
}  // namespace starling
