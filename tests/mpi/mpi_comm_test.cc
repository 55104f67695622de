// What a Comm promises, over MPI: each process of an mpirun plays one rank.
#include "net/mpi_comm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "exchange/collectives.h"
#include "runtime/all.h"
#include "runtime/race.h"
#include "tests/mpi/mpi_world.h"

namespace starling {
namespace {

constexpr Channel kOne{1, Purpose::weights, "a test"}, kTwo{2, Purpose::gradients, "another"};
constexpr Channel kEnd{3, Purpose::control};
constexpr Channel kCounted{4, Purpose::replication, "what nobody else sends here"};

// From around what an envelope holds to more than one piece.
constexpr std::size_t kLengths[] = {0, 1, 3967, 3968, 3969, 70'001, (16 << 20) + 5};

std::vector<std::byte> bytes_of_rank(int rank, std::size_t length) {
  std::vector<std::byte> bytes(length);
  for (std::size_t i = 0; i < length; ++i) {
    bytes[i] = static_cast<std::byte>(static_cast<std::size_t>(rank) * 31 + i * 7 + i / 251);
  }
  return bytes;
}

Task<> pass_on(Comm& comm, std::size_t length, Channel channel = kOne) {
  const int next = comm.ring(comm.rank() + 1), last = comm.ring(comm.rank() - 1);
  const auto mine = bytes_of_rank(comm.rank(), length);
  std::vector<std::byte> theirs(length);
  auto send = comm.send(next, channel, mine);
  co_await comm.receive(last, channel, std::span(theirs));
  co_await send;
  EXPECT_EQ(theirs, bytes_of_rank(last, length)) << length;
}

TEST(MpiComm, CarriesMessagesOfAnyLength) {
  for (const std::size_t length : kLengths) run_over_mpi(pass_on(mpi_world(), length));
}

TEST(MpiComm, CountsEveryByteByPurpose) {
  ProcessComm& comm = mpi_world();
  const auto count = [&](Direction direction) {
    return comm.ledger().total(direction, Purpose::replication);
  };
  const ByteCount sent = count(Direction::sent), received = count(Direction::received);
  run_over_mpi(barrier(comm, kEnd));  // nobody sends before all have looked
  run_over_mpi(pass_on(comm, 70'001, kCounted));
  const std::uint64_t expected =
      comm.size() > 1 ? 70'001 : 0;  // what goes to oneself costs nothing
  EXPECT_EQ(count(Direction::sent).payload - sent.payload, expected);
  EXPECT_EQ(count(Direction::received).payload - received.payload, expected);
}

// The second is asked for first, and long enough that it waits at its sender.
Task<> ask_in_another_order(Comm& comm) {
  const int next = comm.ring(comm.rank() + 1), last = comm.ring(comm.rank() - 1);
  const auto mine = bytes_of_rank(comm.rank(), 1 << 20);
  std::vector<std::byte> first(mine.size()), second(mine.size()), other(mine.size());
  auto send_first = comm.send(next, kOne, mine);
  auto send_second = comm.send(next, kOne, ConstBytes(mine).first(1000));
  auto send_other = comm.send(next, kTwo, mine);
  co_await comm.receive(last, kTwo, std::span(other));
  co_await comm.receive(last, kOne, std::span(first));
  co_await comm.receive(last, kOne, Bytes(second).first(1000));
  co_await send_first;
  co_await send_second;
  co_await send_other;
  const auto expected = bytes_of_rank(last, mine.size());
  EXPECT_EQ(other, expected);
  EXPECT_EQ(first, expected);
  EXPECT_TRUE(std::equal(second.begin(), second.begin() + 1000, expected.begin()));
}

TEST(MpiComm, LetsChannelsOvertakeEachOtherAndKeepsTheOrderOfEach) {
  run_over_mpi(ask_in_another_order(mpi_world()));
}

struct Room : Lender {
  std::optional<Bytes> lend(std::size_t bytes) override {
    if (!open) return std::nullopt;
    memory.resize(bytes);
    return Bytes(memory);
  }
  bool open = false;
  std::vector<std::byte> memory;
};

Task<> find_room(Comm& comm, std::size_t length) {
  const int next = comm.ring(comm.rank() + 1), last = comm.ring(comm.rank() - 1);
  const auto mine = bytes_of_rank(comm.rank(), length);
  int head = comm.rank(), got = -1;
  Room room;
  Receive receive(comm, last, kOne, std::size_t{1} << 20, room, object_bytes(got));
  Send send(comm, next, kOne, mine, object_bytes(head));
  co_await barrier(comm, kEnd);  // by now it has come, and found no room
  EXPECT_FALSE(receive.done());
  room.open = true;
  receive.ask_again();
  co_await receive;
  co_await send;
  EXPECT_EQ(got, last);
  EXPECT_EQ(room.memory, bytes_of_rank(last, length)) << length;
}

TEST(MpiComm, LetsAMessageWaitUntilItsLenderHasRoom) {
  for (const std::size_t length : {100u, 200'000u}) run_over_mpi(find_room(mpi_world(), length));
}

Task<> change_ones_mind(Comm& comm) {
  const int next = comm.ring(comm.rank() + 1), last = comm.ring(comm.rank() - 1);
  const auto mine = bytes_of_rank(comm.rank(), 1 << 20);
  std::vector<std::byte> theirs(mine.size());
  {
    auto nobody_receives = comm.send(next, kOne, mine);
    auto nobody_sends = comm.receive(last, kTwo, std::span(theirs));
    if (comm.size() == 1) co_return;
    co_await barrier(comm, kEnd);
  }
  co_await barrier(comm, kEnd);
  auto send = comm.send(next, kOne, ConstBytes(mine).first(1000));
  co_await comm.receive(last, kOne, Bytes(theirs).first(1000));
  co_await send;
  const auto expected = bytes_of_rank(last, 1000);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), theirs.begin()));
}

TEST(MpiComm, TakesBackWhatNobodyHasAskedFor) { run_over_mpi(change_ones_mind(mpi_world())); }

Task<> receive_number(Comm& comm, int from) {
  int number = 0;
  co_await comm.receive(from, kOne, object_bytes(number));
}

TEST(MpiComm, WaitsNoLongerThanItsDeadline) {
  ProcessComm& comm = mpi_world();
  Loop& loop = comm.loop();
  const int last = comm.ring(comm.rank() - 1);
  EXPECT_THROW(loop.run(within(loop, loop.now() + std::chrono::milliseconds(50), "a test",
                               receive_number(comm, last))),
               DeadlineExceeded);
  run_over_mpi(barrier(comm, kEnd));
}

}  // namespace
}  // namespace starling
