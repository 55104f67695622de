// The simulated cluster: when messages arrive, who waits for whom, what is counted, and that a
// crash is a crash.
#include "sim/cluster.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "base/random.h"
#include "runtime/all.h"
#include "runtime/frame.h"
#include "runtime/group.h"
#include "tests/sim/wire.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

// What some rank is to do: one message, at a time.
struct Step {
  int from, to;
  std::size_t bytes;
  Time start{0};
};

struct Outcome {
  Time left{-1}, arrived{-1};
  bool operator==(const Outcome&) const = default;
};

Task<> send_one(Comm& comm, Step step, Channel channel, Outcome& outcome) {
  co_await sleep_until(comm.loop(), step.start);
  Payload payload(step.bytes);
  co_await comm.send(step.to, channel, std::span(payload));
  outcome.left = comm.loop().now();
}

Task<> receive_one(Comm& comm, Step step, Channel channel, Outcome& outcome) {
  Payload payload(step.bytes);
  co_await comm.receive(step.from, channel, std::span(payload));
  outcome.arrived = comm.loop().now();
}

// Runs all steps at the same time, each on a channel of its own, and says when each message left
// its sender and arrived.
std::vector<Outcome> run_steps(Cluster& cluster, const std::vector<Step>& steps) {
  std::vector<Outcome> outcomes(steps.size());
  cluster.run([&](Comm& comm) {
    std::vector<Task<>> tasks;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const Channel channel{static_cast<std::uint32_t>(i), Purpose::weights};
      if (steps[i].from == comm.rank()) {
        tasks.push_back(send_one(comm, steps[i], channel, outcomes[i]));
      }
      if (steps[i].to == comm.rank()) {
        tasks.push_back(receive_one(comm, steps[i], channel, outcomes[i]));
      }
    }
    return all(std::move(tasks));
  });
  return outcomes;
}

TEST(Cluster, BringsAMessageAfterItsTransferAndTheLatency) {
  for (std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, kFragmentBytes,
                            kFragmentBytes + 1, 5 * kFragmentBytes}) {
    Cluster cluster(2, {kLink, {}});
    const auto outcomes = run_steps(cluster, {{0, 1, bytes, 7ms}});
    EXPECT_EQ(outcomes[0].left, 7ms + transfer(bytes)) << bytes;
    EXPECT_EQ(outcomes[0].arrived, 7ms + transfer(bytes) + 100us) << bytes;
  }
}

TEST(Cluster, BringsMessagesAtOnceOnAnIdealNetwork) {
  Cluster cluster(2);
  EXPECT_EQ(run_steps(cluster, {{0, 1, 1'000'000}}), (std::vector<Outcome>{{0s, 0s}}));
}

TEST(Cluster, TwoSendersToOneReceiverShareItsPort) {
  Cluster cluster(3, {kLink, {}});
  const auto outcomes = run_steps(cluster, {{1, 0, 1000}, {2, 0, 1000}});
  EXPECT_EQ(outcomes[0].arrived, transfer(1000) + 100us);
  EXPECT_EQ(outcomes[1].arrived, 2 * transfer(1000) + 100us);
  EXPECT_EQ(outcomes[1].left, transfer(1000)) << "the sender's own port was free";
}

TEST(Cluster, TwoSendsOfOneRankShareItsPort) {
  Cluster cluster(3, {kLink, {}});
  const auto outcomes = run_steps(cluster, {{0, 1, 1000}, {0, 2, 500}});
  EXPECT_EQ(outcomes[0].arrived, transfer(1000) + 100us);
  EXPECT_EQ(outcomes[1].left, transfer(1000) + transfer(500));
  EXPECT_EQ(outcomes[1].arrived, transfer(1000) + transfer(500) + 100us);
}

TEST(Cluster, APortCarriesBothDirectionsAtTheSameTime) {
  Cluster cluster(2, {kLink, {}});
  for (const Outcome& outcome : run_steps(cluster, {{0, 1, 1000}, {1, 0, 1000}})) {
    EXPECT_EQ(outcome.arrived, transfer(1000) + 100us);
  }
}

TEST(Cluster, OtherPairsDoNotDisturbEachOther) {
  Cluster cluster(4, {kLink, {}});
  for (const Outcome& outcome : run_steps(cluster, {{0, 1, 1000}, {2, 3, 1000}})) {
    EXPECT_EQ(outcome.arrived, transfer(1000) + 100us);
  }
}

TEST(Cluster, AnExceptionalLinkIsSlowInItsDirectionOnly) {
  Cluster cluster(3, {kLink, {{{0, 1}, {1.25e6, 5ms}}}});
  const auto slow = run_steps(cluster, {{0, 1, 1000}})[0];
  EXPECT_EQ(slow.arrived, 10 * transfer(1000) + 5ms);
  const Time start = cluster.loop().now();
  EXPECT_EQ(run_steps(cluster, {{1, 0, 1000, start}})[0].arrived, start + transfer(1000) + 100us);
  const Time later = cluster.loop().now();
  EXPECT_EQ(run_steps(cluster, {{0, 2, 1000, later}})[0].arrived, later + transfer(1000) + 100us);
}

// Traffic that looks random but that both sides know: message i of a pair of ranks on a channel.
struct Traffic {
  std::uint64_t seed;
  int messages = 30;

  Random of(int from, int to, std::uint32_t channel, int message) const {
    return Random{seed, static_cast<std::uint64_t>(from), static_cast<std::uint64_t>(to), channel,
                  static_cast<std::uint64_t>(message)};
  }
  std::vector<std::uint64_t> content(int from, int to, std::uint32_t channel, int message) const {
    Random random = of(from, to, channel, message);
    // Mostly short, now and then longer than a fragment.
    std::vector<std::uint64_t> words(random.below(30) == 0 ? 33'000 : random.below(200));
    for (std::uint64_t& word : words) word = random.bits();
    return words;
  }
};

Task<> send_all(Comm& comm, int to, Channel channel, Traffic traffic) {
  Random random{traffic.seed, 1, static_cast<std::uint64_t>(comm.rank()), channel.id};
  for (int i = 0; i < traffic.messages; ++i) {
    const auto words = traffic.content(comm.rank(), to, channel.id, i);
    co_await sleep_until(comm.loop(), comm.loop().now() + Time(random.below(100'000)));
    co_await comm.send(to, channel, std::span(words));
  }
}

Task<> receive_all(Comm& comm, int from, Channel channel, Traffic traffic, int& wrong,
                   std::vector<Time>& times) {
  Random random{traffic.seed, 2, static_cast<std::uint64_t>(comm.rank()), channel.id};
  for (int i = 0; i < traffic.messages; ++i) {
    const auto expected = traffic.content(from, comm.rank(), channel.id, i);
    std::vector<std::uint64_t> words(expected.size());
    co_await sleep_until(comm.loop(), comm.loop().now() + Time(random.below(100'000)));
    co_await comm.receive(from, channel, std::span(words));
    if (words != expected) ++wrong;
    times.push_back(comm.loop().now());
  }
}

struct TrafficResult {
  std::vector<Time> times;
  int wrong = 0;
  std::vector<Ledger> ledgers;
};

// Every rank sends to every other one on two channels.
TrafficResult run_traffic(int size, Traffic traffic,
                          const Network& network = {kLink, {{{0, 1}, {5e6, 1ms}}}}) {
  Cluster cluster(size, network);
  TrafficResult result;
  cluster.run([&](Comm& comm) {
    std::vector<Task<>> tasks;
    for (int peer = 0; peer < size; ++peer) {
      if (peer == comm.rank()) continue;
      for (const Channel& channel : {kOne, kTwo}) {
        tasks.push_back(send_all(comm, peer, channel, traffic));
        tasks.push_back(receive_all(comm, peer, channel, traffic, result.wrong, result.times));
      }
    }
    return all(std::move(tasks));
  });
  for (int rank = 0; rank < size; ++rank) result.ledgers.push_back(cluster.comm(rank).ledger());
  return result;
}

TEST(Cluster, KeepsTheOrderWithinAChannelWhateverTheSizesAndTimes) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const TrafficResult result = run_traffic(3, {seed});
    EXPECT_EQ(result.times.size(), 3u * 2u * 2u * 30u);
    EXPECT_EQ(result.wrong, 0) << "seed " << seed;
    EXPECT_EQ(run_traffic(3, {seed}, Network{}).wrong, 0) << "seed " << seed;
  }
}

Task<> send_numbers_at_once(Comm& comm, std::vector<int>& got) {
  std::vector<int> numbers(100);
  std::iota(numbers.begin(), numbers.end(), 0);
  std::vector<std::unique_ptr<Send>> sends;
  for (const int& number : numbers) {
    if (comm.rank() == 0) {
      sends.push_back(std::make_unique<Send>(comm, 1, kOne, bytes_of(std::span(&number, 1))));
    } else {
      int arrived = -1;
      co_await comm.receive(0, kOne, std::span(&arrived, 1));
      got.push_back(arrived);
    }
  }
  for (const auto& posted : sends) {
    Send& send = *posted;
    co_await send;
  }
}

TEST(Cluster, KeepsTheOrderOfMessagesThatArriveAtTheSameTime) {
  for (const Cable& link : {Cable{}, Cable{.latency = 1ms}, kLink}) {
    Cluster cluster(2, {link, {}});
    std::vector<int> got, in_order(100);
    std::iota(in_order.begin(), in_order.end(), 0);
    cluster.run([&](Comm& comm) { return send_numbers_at_once(comm, got); });
    EXPECT_EQ(got, in_order);
  }
}

TEST(Cluster, GivesTheSameTimesAndResultsForTheSameProgram) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const TrafficResult once = run_traffic(4, {seed});
    EXPECT_EQ(once.times, run_traffic(4, {seed}).times) << "seed " << seed;
    EXPECT_NE(once.times, run_traffic(4, {seed + 100}).times) << "the times show nothing";
  }
}

TEST(Cluster, CountsTheSameBytesOnBothSides) {
  const Traffic traffic{7};
  const TrafficResult result = run_traffic(3, traffic);
  for (int from = 0; from < 3; ++from) {
    for (int to = 0; to < 3; ++to) {
      for (const Channel& channel : {kOne, kTwo}) {
        ByteCount expected;
        for (int i = 0; from != to && i < traffic.messages; ++i) {
          const std::uint64_t payload = 8 * traffic.content(from, to, channel.id, i).size();
          expected += {payload, wire_bytes(payload)};
        }
        EXPECT_EQ(result.ledgers[static_cast<std::size_t>(from)].count(to, Direction::sent,
                                                                       channel.purpose),
                  expected);
        EXPECT_EQ(result.ledgers[static_cast<std::size_t>(to)].count(from, Direction::received,
                                                                     channel.purpose),
                  expected);
      }
    }
  }
}

Task<> send_on_two_channels(Comm& comm, std::vector<int>& got) {
  int one = 1, two = 2;
  if (comm.rank() == 0) {
    co_await comm.send(1, kOne, std::span(&one, 1));
    co_await comm.send(1, kTwo, std::span(&two, 1));
  } else {
    int number = 0;
    co_await comm.receive(0, kTwo, std::span(&number, 1));  // the other is here, but not wanted yet
    got.push_back(number);
    co_await comm.receive(0, kOne, std::span(&number, 1));
    got.push_back(number);
  }
}

TEST(Cluster, ChannelsDoNotWaitForEachOther) {
  Cluster cluster(2, {kLink, {}});
  std::vector<int> got;
  cluster.run([&](Comm& comm) { return send_on_two_channels(comm, got); });
  EXPECT_EQ(got, (std::vector<int>{2, 1}));
}

Task<> receive_from_both(Comm& comm, Time start, std::vector<int>& got) {
  if (comm.rank() > 0) {
    const int mine = comm.rank();
    co_await sleep_until(comm.loop(), mine == 2 ? 1ms : 2ms);  // 2's message is there first
    co_await comm.send(0, kOne, std::span(&mine, 1));
  } else {
    co_await sleep_until(comm.loop(), start);
    for (int from : {1, 2}) {
      int number = 0;
      co_await comm.receive(from, kOne, std::span(&number, 1));
      got.push_back(number);
    }
  }
}

TEST(Cluster, TellsTheSendersOfOneChannelApart) {
  for (Time start :
       std::initializer_list<Time>{0ms, 1500us, 5ms}) {  // before, between and after the two arrive
    Cluster cluster(3, {kLink, {}});
    std::vector<int> got;
    cluster.run([&](Comm& comm) { return receive_from_both(comm, start, got); });
    EXPECT_EQ(got, (std::vector<int>{1, 2}));
  }
}

Task<> withdraw_and_receive_again(Comm& comm, int& abandoned, int& got) {
  if (comm.rank() == 0) {
    const int number = 5;
    co_await sleep_until(comm.loop(), 1s);
    co_await comm.send(1, kOne, std::span(&number, 1));
  } else {
    { const auto withdrawn = comm.receive(0, kOne, std::span(&abandoned, 1)); }
    co_await comm.receive(0, kOne, std::span(&got, 1));
  }
}

TEST(Cluster, AWithdrawnReceiveGetsNothing) {
  Cluster cluster(2, {kLink, {}});
  int abandoned = -1, got = -1;
  cluster.run([&](Comm& comm) { return withdraw_and_receive_again(comm, abandoned, got); });
  EXPECT_EQ(abandoned, -1);
  EXPECT_EQ(got, 5);
}

TEST(Cluster, ShowsAnObserverEveryMessageAsItArrives) {
  Cluster cluster(2, {kLink, {}});
  std::vector<std::pair<int, int>> seen;
  std::vector<std::size_t> sizes;
  std::vector<Time> times;
  cluster.observe([&](int from, int to, ConstBytes bytes) {
    seen.emplace_back(from, to);
    sizes.push_back(bytes.size());
    times.push_back(cluster.loop().now());
  });
  run_steps(cluster, {{0, 1, 1000}, {1, 0, 10}});
  EXPECT_EQ(seen, (std::vector<std::pair<int, int>>{{1, 0}, {0, 1}}));
  EXPECT_EQ(sizes, (std::vector<std::size_t>{10, 1000}));
  EXPECT_EQ(times, (std::vector<Time>{transfer(10) + 100us, transfer(1000) + 100us}));
}

Task<> fail_at(Comm& comm, std::vector<int> failing) {
  co_await sleep_until(comm.loop(), Time(1'000'000 * (10 - comm.rank())));
  if (std::ranges::count(failing, comm.rank()) > 0) {
    throw Error("rank " + std::to_string(comm.rank()) + " failed");
  }
}

TEST(Cluster, ThrowsTheErrorOfTheLowestRankThatFailed) {
  Cluster cluster(4);
  try {
    cluster.run([&](Comm& comm) { return fail_at(comm, {1, 3}); });
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rank 1 failed") << "3 failed first, but 1 is the lowest";
  }
}

TEST(Cluster, ReturnsTheErrorOfEachRank) {
  Cluster cluster(4);
  const auto errors = cluster.try_run([&](Comm& comm) { return fail_at(comm, {1, 3}); });
  ASSERT_EQ(errors.size(), 4u);
  for (std::size_t rank = 0; rank < 4; ++rank) EXPECT_EQ(errors[rank] != nullptr, rank % 2 == 1);
}

Task<> wait_for_each_other(Comm& comm) {
  int number = 0;
  co_await comm.receive(comm.ring(comm.rank() + 1), kOne, std::span(&number, 1));
}

TEST(Cluster, SaysSoWhenAllWaitForEachOther) {
  Cluster cluster(3);
  EXPECT_THROW(cluster.run([](Comm& comm) { return wait_for_each_other(comm); }), Error);
}

// The fault "crash".

struct Diary {
  std::vector<int> ticks;  // how often each rank did something
  std::vector<Time> lost;  // when each rank got its PeerLost
  std::vector<std::string> reasons;
  std::vector<int> named;
  std::vector<std::string> later;

  explicit Diary(std::size_t size)
      : ticks(size), lost(size, Time(-1)), reasons(size), named(size, -1), later(size) {}
};

// Does something every millisecond for as long as it lives.
Task<> tick(Comm& comm, int& ticks) {
  for (int i = 1; i <= 100; ++i) {
    co_await sleep_until(comm.loop(), Time(1'000'000 * i));
    ++ticks;
  }
}

Task<> wait_for_a_message(Comm& comm, int from, Diary& diary) {
  const auto rank = static_cast<std::size_t>(comm.rank());
  int number = 0;
  try {
    co_await comm.receive(from, kOne.in("an exchange"), std::span(&number, 1));
  } catch (const PeerLost& lost) {
    diary.lost[rank] = comm.loop().now();
    diary.reasons[rank] = lost.what();
    diary.named[rank] = lost.rank();
  }
  // A later operation, with a rank that is well.
  const int well = comm.rank() == 0 ? 1 : 0;
  try {
    co_await comm.send(well, kTwo.in("a later send"), std::span(&number, 1));
    diary.later[rank] = "it went through";
  } catch (const PeerLost& lost) {
    diary.later[rank] = lost.what();
  }
}

// All wait for the rank before; the last one is the one that crashes.
Task<> live(Comm& comm, Diary& diary) {
  const auto rank = static_cast<std::size_t>(comm.rank());
  std::vector<Task<>> tasks;
  tasks.push_back(tick(comm, diary.ticks[rank]));
  tasks.push_back(wait_for_a_message(comm, comm.ring(comm.rank() - 1), diary));
  co_await all(std::move(tasks));
}

TEST(ClusterCrash, StopsTheRankAndTellsTheOthersAfterTheLatency) {
  Cluster cluster(4, {kLink, {{{3, 1}, {12.5e6, 7ms}}}});
  Diary diary(4);
  cluster.crash(3, 20ms + 500us);
  const auto errors = cluster.try_run([&](Comm& comm) { return live(comm, diary); });

  EXPECT_EQ(diary.ticks, (std::vector<int>{100, 100, 100, 20})) << "the crashed rank stops";
  for (std::size_t rank = 0; rank < 3; ++rank) {
    // Also those that waited for another rank: nobody is to wait for what will not come.
    EXPECT_EQ(diary.lost[rank], 20ms + 500us + (rank == 1 ? 7ms : 100us)) << rank;
    EXPECT_EQ(diary.named[rank], 3);
    EXPECT_EQ(diary.reasons[rank], "rank 3 was lost in an exchange (it ended before its time)");
    EXPECT_EQ(diary.later[rank], "rank 3 was lost in a later send (it ended before its time)");
    EXPECT_EQ(errors[rank], nullptr) << "they caught it";
  }
  EXPECT_EQ(diary.lost[3], Time(-1));
  EXPECT_EQ(diary.later[3], "");
  EXPECT_EQ(errors[3], nullptr) << "a crash on purpose is no error";
}

TEST(ClusterCrash, DoesNothingToARunThatIsOverBefore) {
  Cluster cluster(2, {kLink, {}});
  cluster.crash(1, 1h);
  EXPECT_EQ(run_steps(cluster, {{0, 1, 1000}})[0].arrived, transfer(1000) + 100us);
  EXPECT_LT(cluster.loop().now(), 1s);
}

Task<> send_then_receive_after_loss(Comm& comm, Payload& payload, std::string& what) {
  if (comm.rank() == 0) {
    co_await comm.send(1, kOne, std::span(payload));
  } else {
    co_await sleep_until(comm.loop(), 10s);
    Payload arrived(payload.size());
    try {
      co_await comm.receive(0, kOne, std::span(arrived));
      what = "it arrived";
    } catch (const PeerLost& lost) {
      what = lost.what();
    }
  }
}

TEST(ClusterCrash, AMessageThatHadLeftStillArrives) {
  Cluster cluster(2, {kLink, {}});
  Payload payload(1000);
  std::string what;
  cluster.crash(0, transfer(1000) + 1us);
  cluster.try_run([&](Comm& comm) { return send_then_receive_after_loss(comm, payload, what); });
  EXPECT_EQ(what, "it arrived");
}

TEST(ClusterCrash, AMessageThatWasHalfSentDoesNotArrive) {
  Cluster cluster(2, {kLink, {}});
  Payload payload(1'000'000);
  std::string what;
  cluster.crash(0, transfer(1'000'000) / 2);
  cluster.try_run([&](Comm& comm) { return send_then_receive_after_loss(comm, payload, what); });
  EXPECT_EQ(what, "rank 0 was lost in a test (it ended before its time)");
  EXPECT_EQ(cluster.comm(1).ledger().total(Direction::received), ByteCount{});
}

Task<> send_while_the_port_is_busy(Comm& comm, Payload& long_one, Payload& short_one) {
  if (comm.rank() == 1) co_await comm.send(0, kOne, std::span(long_one));
  if (comm.rank() == 2) {
    co_await sleep_until(comm.loop(), 1us);
    co_await comm.send(0, kOne, std::span(short_one));
  }
  if (comm.rank() == 0) {
    co_await comm.receive(1, kOne, std::span(long_one));
    co_await sleep_until(comm.loop(), 1s);
  }
}

TEST(ClusterCrash, WhatComesAfterTheLossIsNoMessage) {
  Cluster cluster(3, {kLink, {}});
  Payload long_one(100'000), short_one(10);
  std::vector<int> seen;
  cluster.observe([&](int from, int, ConstBytes) { seen.push_back(from); });
  Group(cluster.comm(0)).contain_losses();
  Group(cluster.comm(1)).contain_losses();
  cluster.crash(2, 100us);  // its message has left and waits behind the long one
  cluster.run([&](Comm& comm) { return send_while_the_port_is_busy(comm, long_one, short_one); });
  EXPECT_EQ(seen, std::vector<int>{1});
}

Task<> send_and_note_failure(Comm& comm, Channel channel, Payload& payload,
                             std::vector<std::uint32_t>& failed) {
  try {
    co_await comm.send(1, channel, std::span(payload));
  } catch (const PeerLost&) {
    failed.push_back(channel.id);
  }
}

// Which failure comes first decides which error a program reports: it must not depend on where in
// memory its operations are.
TEST(ClusterCrash, FailsSendsInTheOrderTheyWerePosted) {
  Cluster cluster(2, {kLink, {}});
  Payload payload(1'000'000);
  std::vector<std::uint32_t> failed, in_order(40);
  std::iota(in_order.begin(), in_order.end(), 0u);
  cluster.crash(1, 1ms);
  cluster.try_run([&](Comm& comm) {
    std::vector<Task<>> tasks;
    for (std::uint32_t id = 0; id < 40 && comm.rank() == 0; ++id) {
      tasks.push_back(send_and_note_failure(comm, {id, Purpose::weights}, payload, failed));
    }
    if (comm.rank() == 1) tasks.push_back(sleep_until(comm.loop(), 1h));
    return all(std::move(tasks));
  });
  EXPECT_EQ(failed, in_order);
}

Task<> count_in(int& started) {
  ++started;
  co_return;
}

TEST(ClusterCrash, ADeadRankStaysDeadInTheNextRun) {
  Cluster cluster(3, {kLink, {}});
  Diary diary(3);
  cluster.crash(2, 20ms);
  cluster.try_run([&](Comm& comm) { return live(comm, diary); });
  std::vector<int> started(3);
  const auto errors = cluster.try_run(
      [&](Comm& comm) { return count_in(started[static_cast<std::size_t>(comm.rank())]); });
  EXPECT_EQ(started, (std::vector<int>{1, 1, 0}));
  EXPECT_EQ(errors, std::vector<std::exception_ptr>(3));
}

}  // namespace
}  // namespace starling
