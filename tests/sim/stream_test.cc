// What the simulated connections have in common with the real ones: memory that must not change
// under a send, withdrawals, and sends that feel their receiver.
#include "sim/stream.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "base/error.h"
#include "runtime/all.h"
#include "runtime/frame.h"
#include "runtime/race.h"
#include "sim/cluster.h"
#include "tests/sim/wire.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kLong = 1'000'000;  // more than the kernel takes

// Runs one program on rank 0 and another on rank 1.
using Side = std::function<Task<>(Comm&)>;
void run_two(const Side& first, const Side& second, const Network& network = kLine) {
  Cluster cluster(2, network);
  cluster.run([&](Comm& comm) { return comm.rank() == 0 ? first(comm) : second(comm); });
}

Task<> send_at(Comm& comm, Channel channel, std::size_t bytes, Time start, Time& done) {
  co_await sleep_until(comm.loop(), start);
  const Payload payload(bytes);
  co_await comm.send(1 - comm.rank(), channel, std::span(payload));
  done = comm.loop().now();
}
Task<> receive_at(Comm& comm, Channel channel, std::size_t bytes, Time start, Time& done) {
  co_await sleep_until(comm.loop(), start);
  Payload payload(bytes);
  co_await comm.receive(1 - comm.rank(), channel, std::span(payload));
  done = comm.loop().now();
}
Task<> one_after_the_other(std::vector<Task<>> tasks) {
  for (Task<>& task : tasks) co_await task;
}
template <class... Tasks>
std::vector<Task<>> list(Tasks... tasks) {
  std::vector<Task<>> all_of_them;
  (all_of_them.push_back(std::move(tasks)), ...);
  return all_of_them;
}

// Memory

Task<> change_under_way(Comm& comm, Time change_at) {
  Payload payload(1000);
  auto send = comm.send(1, kOne.in("an exchange"), std::span(payload));
  co_await sleep_until(comm.loop(), change_at);
  payload[500] = std::byte{1};
  co_await send;
}

TEST(StreamDeathTest, MemoryThatChangesUnderASendIsReported) {
  Time done;
  const auto receive = [&](Comm& comm) { return receive_at(comm, kOne, 1000, 0s, done); };
  for (const Time when : {Time(0), transfer(1000) / 2}) {
    EXPECT_DEATH(run_two([&](Comm& comm) { return change_under_way(comm, when); }, receive),
                 "rank 0 changed the memory of a message to rank 1 in an exchange before it was "
                 "sent");
  }
}

TEST(Stream, MemoryMayChangeAsSoonAsTheSendIsFinished) {
  Time done{-1};
  run_two([](Comm& comm) { return change_under_way(comm, transfer(1000) + 1us); },
          [&](Comm& comm) { return receive_at(comm, kOne, 1000, 0s, done); });
  EXPECT_EQ(done, transfer(1000) + 100us);
}

// Withdrawals

Task<> withdraw_second(Comm& comm, Time when) {
  const std::vector<int> values(25'000, 1);
  const std::vector<int> other(25'000, 2);
  const std::vector<int> last(25'000, 3);
  auto first = comm.send(1, kOne, std::span(values));
  auto second = std::make_unique<Send>(comm, 1, kOne, bytes_of(std::span(other)));
  co_await sleep_until(comm.loop(), when);
  second.reset();
  co_await first;
  co_await comm.send(1, kOne, std::span(last));
}

Task<> receive_values(Comm& comm, int count, std::vector<int>& got) {
  for (int i = 0; i < count; ++i) {
    std::vector<int> values(25'000);
    co_await comm.receive(0, kOne, std::span(values));
    got.push_back(values.front());
    if (values.front() != values.back()) got.push_back(-1);
  }
}

TEST(Stream, AWithdrawnMessageArrivesOnlyIfItHadBegunToLeave) {
  // The first one is on the port until then.
  const Time second_begins = transfer(100'000);
  for (const auto& [when, expected] : {std::pair{second_begins - 1us, std::vector{1, 3}},
                                       std::pair{second_begins + 1us, std::vector{1, 2, 3}}}) {
    std::vector<int> got;
    run_two(
        [when = when](Comm& comm) { return withdraw_second(comm, when); },
        [&](Comm& comm) { return receive_values(comm, static_cast<int>(expected.size()), got); });
    EXPECT_EQ(got, expected);
  }
}

// A message that waits for room behind another one has not begun, however long it has waited.
TEST(Stream, AMessageThatWaitedForRoomIsWithdrawnWithoutATrace) {
  std::vector<int> got;
  Time sent{0}, done{0};
  run_two(
      [&](Comm& comm) {
        return all(list(send_at(comm, kTwo, kLong, 0s, sent), withdraw_second(comm, 1s)));
      },
      [&](Comm& comm) {
        return one_after_the_other(
            list(receive_at(comm, kTwo, kLong, 2s, done), receive_values(comm, 2, got)));
      });
  EXPECT_EQ(got, (std::vector{1, 3}));
}

Task<> withdraw_a_receive(Comm& comm, Time when, std::vector<int>& got) {
  std::vector<int> values(25'000);
  auto first = std::make_unique<Receive>(comm, 0, kOne, writable_bytes(std::span(values)));
  auto second = comm.receive(0, kOne, std::span(values));
  co_await sleep_until(comm.loop(), when);
  first.reset();
  co_await second;
  got.push_back(values.front());
  co_await receive_values(comm, 1, got);
}

Task<> send_values(Comm& comm, int count) {
  for (int i = 1; i <= count; ++i) {
    const std::vector<int> values(25'000, i);
    co_await comm.send(1, kOne, std::span(values));
  }
}

TEST(Stream, TheNextReceiveGetsTheMessageOfOneThatWasWithdrawn) {
  for (const Time when : {Time(0), Time(1ms), transfer(100'000) + 50us}) {
    std::vector<int> got;
    run_two([](Comm& comm) { return send_values(comm, 2); },
            [&](Comm& comm) { return withdraw_a_receive(comm, when, got); });
    EXPECT_EQ(got, (std::vector{1, 2}));
  }
}

// Back-pressure

TEST(Stream, AShortMessageIsSentBeforeAnybodyAsksForIt) {
  Time sent{-1}, received{-1};
  run_two([&](Comm& comm) { return send_at(comm, kOne, 1000, 0s, sent); },
          [&](Comm& comm) { return receive_at(comm, kOne, 1000, 5s, received); });
  EXPECT_EQ(sent, transfer(1000));
  EXPECT_EQ(received, 5s);
}

TEST(Stream, ALongMessageIsNotSentUntilSomebodyAsksForIt) {
  Time sent{-1}, received{-1};
  run_two([&](Comm& comm) { return send_at(comm, kOne, kLong, 0s, sent); },
          [&](Comm& comm) { return receive_at(comm, kOne, kLong, 5s, received); });
  EXPECT_EQ(sent, 5s);
  EXPECT_EQ(received, 5s);
}

TEST(Stream, ALongMessageThatIsAwaitedTakesNoLonger) {
  Time sent{-1}, received{-1};
  run_two([&](Comm& comm) { return send_at(comm, kOne, kLong, 1s, sent); },
          [&](Comm& comm) { return receive_at(comm, kOne, kLong, 0s, received); });
  EXPECT_EQ(sent, 1s + transfer(kLong));
  EXPECT_EQ(received, 1s + transfer(kLong) + 100us);
}

Task<> send_many(Comm& comm, std::size_t bytes, int count, std::vector<Time>& sent) {
  sent.assign(static_cast<std::size_t>(count), Time(-1));
  for (Time& time : sent) co_await send_at(comm, kOne, bytes, 0s, time);
}
Task<> receive_many(Comm& comm, std::size_t bytes, int count, Time start) {
  Time time{0};
  for (int i = 0; i < count; ++i) co_await receive_at(comm, kOne, bytes, start, time);
}

TEST(Stream, AsMuchIsSentInAdvanceAsTheKernelTakes) {
  constexpr std::size_t kBytes = 10'000;
  constexpr auto kFit = static_cast<int>(kSocketBufferBytes / (kBytes + sizeof(FrameHeader)));
  std::vector<Time> sent;
  run_two([&](Comm& comm) { return send_many(comm, kBytes, 40, sent); },
          [&](Comm& comm) { return receive_many(comm, kBytes, 40, 5s); });
  for (int i = 0; i < 40; ++i) {
    if (i < kFit) {
      EXPECT_EQ(sent[static_cast<std::size_t>(i)], (i + 1) * transfer(kBytes));
    } else {
      EXPECT_GE(sent[static_cast<std::size_t>(i)], 5s);
    }
  }
}

TEST(Stream, OtherChannelsWaitBehindAMessageThatNobodyAskedFor) {
  Time long_sent{-1}, short_sent{-1}, received{-1};
  run_two(
      [&](Comm& comm) {
        return all(list(send_at(comm, kOne, kLong, 0s, long_sent),
                        send_at(comm, kTwo, 1000, 1ms, short_sent)));
      },
      [&](Comm& comm) {
        return one_after_the_other(list(receive_at(comm, kOne, kLong, 5s, received),
                                        receive_at(comm, kTwo, 1000, 6s, received)));
      });
  EXPECT_EQ(long_sent, 5s);
  EXPECT_EQ(short_sent, 5s + transfer(1000));
}

TEST(Stream, WhatNobodyAskedForIsStoredIfAReceiveWaitsBehindIt) {
  Time long_sent{-1}, short_sent{-1}, long_received{-1}, short_received{-1};
  run_two(
      [&](Comm& comm) {
        return all(list(send_at(comm, kOne, kLong, 0s, long_sent),
                        send_at(comm, kTwo, 1000, 1ms, short_sent)));
      },
      [&](Comm& comm) {
        return one_after_the_other(list(receive_at(comm, kTwo, 1000, 0s, short_received),
                                        receive_at(comm, kOne, kLong, 6s, long_received)));
      });
  EXPECT_EQ(long_sent, transfer(kLong));
  EXPECT_EQ(short_received, transfer(kLong) + transfer(1000) + 100us);
  EXPECT_EQ(long_received, 6s);
}

// The receive that made the receiver read is served: it reads no further, although it has not been
// served yet when the long message begins to leave.
TEST(Stream, AReceiveThatIsServedBeforeDoesNotHelpWhatIsBehind) {
  Time short_sent{-1}, long_sent{-1}, received{-1};
  run_two(
      [&](Comm& comm) {
        return all(list(send_at(comm, kTwo, 1000, 0s, short_sent),
                        send_at(comm, kOne, kLong, 0s, long_sent)));
      },
      [&](Comm& comm) {
        return one_after_the_other(list(receive_at(comm, kTwo, 1000, 0s, received),
                                        receive_at(comm, kOne, kLong, 5s, received)));
      },
      {{12.5e6, 1s}, {}});
  EXPECT_EQ(short_sent, transfer(1000));
  EXPECT_EQ(long_sent, 5s);
}

TEST(Stream, TheStoreHasABound) {
  constexpr std::size_t kHalf = kStoredLimitBytes / 2 + 1;
  Time first{-1}, second{-1}, third{-1}, received{-1};
  const Network fast{{1e9, 0s}, {}};
  run_two(
      [&](Comm& comm) {
        return all(list(send_at(comm, {10, Purpose::weights}, kHalf, 0s, first),
                        send_at(comm, {11, Purpose::weights}, kHalf, 1s, second),
                        send_at(comm, kTwo, 1000, 2s, third)));
      },
      [&](Comm& comm) {
        return all(list(receive_at(comm, kTwo, 1000, 0s, received),
                        receive_at(comm, {10, Purpose::weights}, kHalf, 5s, third),
                        receive_at(comm, {11, Purpose::weights}, kHalf, 6s, third)));
      },
      fast);
  EXPECT_LT(first, 1s) << "the first one is stored";
  EXPECT_EQ(second, 5s) << "the second one, when the first has been asked for";
  EXPECT_GE(received, 5s);
  EXPECT_LT(received, 6s);
}

Task<> send_then_receive(Comm& comm, std::size_t bytes) {
  Payload out(bytes), in(bytes);
  co_await comm.send(1 - comm.rank(), kOne, std::span(out));
  co_await comm.receive(1 - comm.rank(), kOne, std::span(in));
}

TEST(Stream, TwoThatSendBeforeTheyReceiveAreStuckIfTheirMessagesAreLong) {
  const auto both = [](std::size_t bytes) {
    const auto side = [bytes](Comm& comm) { return send_then_receive(comm, bytes); };
    run_two(side, side);
  };
  both(100'000);
  EXPECT_THROW(both(kLong), Error);
}

// A crash leaves what the kernel has, and nothing of a message that it has in part.
Task<> note_what_comes(Comm& comm, std::size_t bytes, std::string& outcome) {
  Time time{0};
  try {
    co_await receive_at(comm, kOne, bytes, 5s, time);
    outcome += "all ";
  } catch (const PeerLost&) {
    outcome += "lost ";
  }
}

TEST(Stream, ACrashedSendersMessageArrivesIfTheKernelHadAllOfIt) {
  for (const auto& [bytes, expected] :
       {std::pair{std::size_t{100'000}, "all "}, std::pair{kLong, "lost "}}) {
    Cluster cluster(2, kLine);
    cluster.crash(0, 1s);
    std::string outcome;
    Time time{0};
    cluster.try_run([&, bytes = bytes](Comm& comm) {
      return comm.rank() == 0
                 ? all(list(send_at(comm, kOne, bytes, 0s, time), sleep_until(comm.loop(), 9s)))
                 : note_what_comes(comm, bytes, outcome);
    });
    EXPECT_EQ(outcome, expected);
  }
}

}  // namespace
}  // namespace starling
