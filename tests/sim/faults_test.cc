// That each fault does what its name says.
#include "sim/faults.h"

#include <gtest/gtest.h>

#include <sstream>

#include "base/error.h"
#include "runtime/all.h"
#include "runtime/group.h"
#include "sim/cluster.h"
#include "tests/sim/wire.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

const Network kNetwork{{1e9, 100us}, {}};

std::string what(const std::exception_ptr& error) {
  if (!error) return "";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& caught) {
    return caught.what();
  }
}

TEST(Faults, ArePrintedInOneLineWithTheirSeed) {
  Faults faults;
  faults.seed = 7;
  faults.crashes.push_back({2, 205ms});
  faults.failures.push_back({1, 1500us});
  faults.partitions.push_back({{0, 3}, 1s, 31s});
  std::ostringstream out;
  out << faults;
  EXPECT_EQ(
      out.str(),
      "seed 7, rank 2 crashes at 205 ms, rank 1 fails at 1.5 ms, rank 0 and 3 is cut off from "
      "1000 ms to 31000 ms, detected in 10000 ms");
}

TEST(Faults, OfEveryKindArePrinted) {
  Faults faults;
  faults.leaves = {{0, 1ms}};
  faults.restarts = {{0, 2ms}};
  faults.pauses = {{{1ms, 2ms}, 3}};
  faults.partitions = {{{0, 3}, 1ms, 2ms, Faults::Way::out},
                       {{0}, 1ms, 2ms, Faults::Way::in, {1}},
                       {{0}, 1ms, 2ms, Faults::Way::both, {1}}};
  faults.delays = {{{1ms, 2ms}, 0, 1, 30ms}};
  faults.slow_links = {{{1ms, 2ms}, 1, 0, 1000.0}};
  faults.slow_workers = {{{1ms, 2ms}, 2, 2.5}};
  faults.drifts = {{2, -17}};
  std::ostringstream out;
  out << faults;
  EXPECT_EQ(out.str(),
            "seed 0, rank 0 is told to leave at 1 ms, rank 0 is started anew at 2 ms, rank 3 is "
            "stopped from 1 ms to 2 ms, nothing from rank 0 and 3 arrives at the others from 1 ms "
            "to 2 ms, nothing from rank 1 arrives at rank 0 from 1 ms to 2 ms, rank 0 is cut off "
            "from rank 1 from 1 ms to 2 ms, detected in 10000 ms, from rank 0 to 1 it takes 30 ms "
            "more from 1 ms to 2 ms, from rank 1 to 0 go 1000 bytes/s from 1 ms to 2 ms, rank 2 "
            "computes 2.5 times slower from 1 ms to 2 ms, rank 2's clock gains -17 millionths");
}

// What is drawn of each kind, over many seeds.
TEST(Faults, AreDrawnOfEveryKindThatIsAskedFor) {
  const auto count = [](const std::set<FaultKind>& kinds) {
    std::map<std::string, std::size_t> counts;
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
      const Faults faults = draw_faults(seed, 4, 5s, kinds);
      EXPECT_EQ(faults.seed, seed);
      counts["crash"] += faults.crashes.size();
      counts["failure"] += faults.failures.size();
      counts["leave"] += faults.leaves.size();
      counts["restart"] += faults.restarts.size();
      counts["pause"] += faults.pauses.size();
      counts["partition"] += faults.partitions.size();
      counts["delay"] += faults.delays.size();
      counts["slow link"] += faults.slow_links.size();
      counts["slow worker"] += faults.slow_workers.size();
      counts["drift"] += faults.drifts.size();
    }
    return counts;
  };
  for (const auto& [kind, number] : count(kAllFaults)) EXPECT_GT(number, 20u) << kind;
  for (const auto& [kind, number] : count({FaultKind::pause})) {
    EXPECT_EQ(number > 0, kind == "pause") << kind;
  }
}

// What a rank sees of another: when an operation with it failed, and how.
struct Seen {
  std::string error;
  Time when{-1};
  bool lost = false;
  int named = -1;
};

Task<> await_message(Comm& comm, int from, Seen& seen) {
  int value = 0;
  try {
    co_await comm.receive(from, kOne, object_bytes(value));
  } catch (const PeerLost& lost) {
    seen = {lost.what(), comm.loop().now(), comm.is_lost(from), lost.rank()};
  } catch (const CutOff& cut) {
    seen = {cut.what(), comm.loop().now(), comm.is_lost(from)};
  }
}

// Rank `gone` does something for a while; the others wait for a message from it that never comes.
Task<> wait_for(Comm& comm, int gone, Time works_for, std::vector<Seen>& seen) {
  if (comm.rank() == gone) {
    co_await sleep_until(comm.loop(), works_for);
  } else {
    co_await await_message(comm, gone, seen[static_cast<std::size_t>(comm.rank())]);
  }
}

struct Waited {
  std::vector<Seen> seen = std::vector<Seen>(3);
  std::vector<std::exception_ptr> errors;
};
Waited wait_for_one(Faults faults, Time works_for) {
  Cluster cluster(3, kNetwork, std::move(faults));
  Waited result;
  result.errors =
      cluster.live([&](Comm& comm) { return wait_for(comm, 1, works_for, result.seen); });
  return result;
}

TEST(Failure, EndsTheProgramByAnErrorAndTheOthersLoseIt) {
  Faults faults;
  faults.failures.push_back({1, 2s});
  const Waited waited = wait_for_one(faults, 1h);
  EXPECT_EQ(what(waited.errors[1]), "rank 1 fails, as it was told to");
  for (const std::size_t rank : {0u, 2u}) {
    EXPECT_EQ(waited.seen[rank].error, "rank 1 was lost in a test (it ended before its time)");
    EXPECT_EQ(waited.seen[rank].when, 2s + 100us);
    EXPECT_TRUE(waited.seen[rank].lost);
  }
}

TEST(Crash, EndsTheProgramWithoutAWordAndTheOthersLoseIt) {
  Faults faults;
  faults.crashes.push_back({1, 2s});
  const Waited waited = wait_for_one(faults, 1h);
  EXPECT_EQ(what(waited.errors[1]), "");
  for (const std::size_t rank : {0u, 2u}) {
    EXPECT_EQ(waited.seen[rank].when, 2s + 100us);
    EXPECT_TRUE(waited.seen[rank].lost);
  }
}

TEST(Leaving, IsWhatARankDoesThatIsToldTo) {
  Faults faults;
  faults.leaves = {{1, 3s}, {1, 2s}};
  const Waited waited = wait_for_one(faults, 1h);
  EXPECT_EQ(what(waited.errors[1]), "");
  for (const std::size_t rank : {0u, 2u}) {
    EXPECT_EQ(waited.seen[rank].error, "rank 1 was lost in a test (it has left)");
    EXPECT_EQ(waited.seen[rank].when, 2s + 100us);
    EXPECT_FALSE(waited.seen[rank].lost);
  }
}

TEST(Leaving, FailsOnlyWhatStillWaitsForTheOneWhoLeftAndIsNoLoss) {
  const Waited waited = wait_for_one({}, 2s);
  for (const std::size_t rank : {0u, 2u}) {
    EXPECT_EQ(waited.seen[rank].error, "rank 1 was lost in a test (it has left)");
    EXPECT_EQ(waited.seen[rank].when, 2s + 100us);
    EXPECT_FALSE(waited.seen[rank].lost);
  }
}

Task<> send_and_leave(Comm& comm, std::size_t bytes, std::vector<int>& got) {
  std::vector<int> values(bytes / sizeof(int), 5);
  if (comm.rank() == 0) {
    co_await comm.send(1, kOne, std::span(values));
    co_return;
  }
  values.assign(values.size(), 0);
  co_await sleep_until(comm.loop(), 3s);
  co_await comm.receive(0, kOne, std::span(values));
  got.push_back(values.back());
}

TEST(Leaving, WhatWasSentBeforeIsStillReceived) {
  for (const std::size_t bytes : {std::size_t{4}, std::size_t{200'000}}) {
    Cluster cluster(2, kNetwork);
    std::vector<int> got;
    cluster.live([&](Comm& comm) { return send_and_leave(comm, bytes, got); });
    EXPECT_EQ(got, std::vector{5});
  }
}

// 2 ends because 1 crashed, and is much nearer to 0: it is the messenger, not the culprit.
TEST(Ending, WhoGivesUpOnAccountOfAnotherSaysSo) {
  Cluster cluster(3, {{1e9, 10us}, {{{1, 0}, {1e9, 1s}}}});
  cluster.crash(1, 1s);
  std::vector<Seen> seen(3);
  cluster.live([&](Comm& comm) {
    return await_message(comm, comm.rank() == 0 ? 2 : 1,
                         seen[static_cast<std::size_t>(comm.rank())]);
  });
  EXPECT_EQ(seen[2].named, 1);
  EXPECT_EQ(seen[0].error, "rank 1 was lost in a test (rank 2 reported it)");
  EXPECT_EQ(seen[0].when, 1s + 20us);
}

// 2 leaves in good order, which 0 cannot hear: to 0 it is lost, to 1 it is not.
TEST(Ending, WhoGivesUpOnAccountOfOneWhoHasLeftIsLost) {
  Faults faults;
  faults.partitions = {{{2}, 1s, 1h, Faults::Way::out, {0}}};
  Cluster cluster(3, kNetwork, faults);
  std::vector<Seen> seen(3);
  cluster.live([&](Comm& comm) {
    return comm.rank() == 2 ? sleep_until(comm.loop(), 2s)
                            : await_message(comm, comm.rank() == 0 ? 2 : 0,
                                            seen[static_cast<std::size_t>(comm.rank())]);
  });
  EXPECT_EQ(seen[0].error, "rank 2 was lost in a test (it does not answer)");
  EXPECT_EQ(seen[1].error, "rank 0 was lost in a test (it gave up because of rank 2)");
}

Task<> count_messages(Comm& comm, std::vector<Time>& arrived) {
  for (int i = 0; i < 5; ++i) {
    int value = i;
    if (comm.rank() == 0) {
      co_await sleep_until(comm.loop(), Time(1s) * i);
      co_await comm.send(1, kOne, object_bytes(value));
    } else {
      co_await comm.receive(0, kOne, object_bytes(value));
      arrived.push_back(comm.loop().now());
      EXPECT_EQ(value, i);
    }
  }
}

TEST(Partition, ShowsAnObserverNothingUntilItIsMended) {
  Faults faults;
  faults.partitions.push_back({{1}, 1500ms, 3500ms});
  Cluster cluster(2, {{1e9, 0s}, {}}, faults);
  std::vector<Time> shown, arrived;
  cluster.observe([&](int, int, ConstBytes) { shown.push_back(cluster.loop().now()); });
  cluster.run([&](Comm& comm) { return count_messages(comm, arrived); });
  EXPECT_EQ(shown, arrived);
}

TEST(Partition, DelaysMessagesIfItIsShort) {
  Faults faults;
  faults.partitions.push_back({{1}, 1500ms, 3500ms});
  Cluster cluster(2, {{1e9, 0s}, {}}, faults);
  std::vector<Time> arrived;
  cluster.run([&](Comm& comm) { return count_messages(comm, arrived); });
  ASSERT_EQ(arrived.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    const Time sent = Time(1s) * static_cast<int>(i);
    EXPECT_EQ(std::chrono::floor<std::chrono::milliseconds>(arrived[i]),
              i == 2 || i == 3 ? Time(3500ms) : sent);
  }
}

TEST(Partition, OfOneWayDelaysWhatGoesThatWayOnly) {
  for (const Faults::Way way : {Faults::Way::out, Faults::Way::in}) {
    Faults faults;
    faults.partitions = {{{1}, 1500ms, 3500ms, way}};
    Cluster cluster(2, {{1e9, 0s}, {}}, faults);
    std::vector<Time> arrived;
    cluster.run([&](Comm& comm) { return count_messages(comm, arrived); });
    ASSERT_EQ(arrived.size(), 5u);
    EXPECT_EQ(std::chrono::floor<std::chrono::milliseconds>(arrived[2]),
              way == Faults::Way::in ? 3500ms : 2s);
  }
}

TEST(Partition, ThatOverlapsAnotherEndsWithTheLast) {
  Faults faults;
  faults.partitions = {{{1}, 1500ms, 3500ms}, {{0}, 1600ms, 2s}};
  Cluster cluster(2, {{1e9, 0s}, {}}, faults);
  std::vector<Time> arrived;
  cluster.run([&](Comm& comm) { return count_messages(comm, arrived); });
  EXPECT_EQ(std::chrono::floor<std::chrono::milliseconds>(arrived.at(2)), 3500ms);
}

TEST(Delay, AddsToTheLatencyWhileItLasts) {
  Faults faults;
  faults.delays = {{{1500ms, 3500ms}, 0, 1, 300ms}, {{0s, 10s}, 1, 0, 1s}};
  Cluster cluster(2, {{1e9, 0s}, {}}, faults);
  std::vector<Time> arrived;
  cluster.run([&](Comm& comm) { return count_messages(comm, arrived); });
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(std::chrono::floor<std::chrono::milliseconds>(arrived.at(i)),
              Time(1s) * static_cast<int>(i) + (i == 2 || i == 3 ? Time(300ms) : Time(0)));
  }
}

TEST(SlowLink, CarriesFewBytesASecondWhileItLasts) {
  Faults faults;
  faults.slow_links = {{{1500ms, 2500ms}, 0, 1, 100.0}};
  Cluster cluster(2, {{1e9, 0s}, {}}, faults);
  std::vector<Time> arrived;
  cluster.run([&](Comm& comm) { return count_messages(comm, arrived); });
  EXPECT_EQ(arrived.at(2), 2s + Time(10ms) * wire_bytes(sizeof(int)));
  EXPECT_EQ(std::chrono::floor<std::chrono::milliseconds>(arrived.at(3)), 3s);
}

TEST(SlowWorker, TakesLongerForWhatItComputesWhileItLasts) {
  Faults faults;
  faults.slow_workers = {{{1s, 2s}, 1, 3}, {{1500ms, 3s}, 1, 2}};
  EXPECT_EQ(faults.computing(1, 500ms, 10ms), 10ms);
  EXPECT_EQ(faults.computing(1, 1s, 10ms), 30ms);
  EXPECT_EQ(faults.computing(1, 1700ms, 10ms), 60ms);
  EXPECT_EQ(faults.computing(0, 1700ms, 10ms), 10ms);
}

TEST(Pause, HoldsBackAllThatARankDoes) {
  Faults faults;
  faults.pauses = {{{1500ms, 3500ms}, 0}};
  Cluster cluster(2, {{1e9, 0s}, {}}, faults);
  std::vector<Time> arrived;
  cluster.run([&](Comm& comm) { return count_messages(comm, arrived); });
  EXPECT_EQ(std::chrono::floor<std::chrono::milliseconds>(arrived.at(2)), 3500ms);
  EXPECT_EQ(std::chrono::floor<std::chrono::milliseconds>(arrived.at(4)), 4s);
}

TEST(Pause, LetsNothingBeReadAndNobodyBeMissed) {
  Faults faults;
  faults.pauses = {{{1500ms, 13500ms}, 1}, {{1600ms, 2s}, 1}};
  Cluster cluster(2, {{1e9, 0s}, {}}, faults);
  std::vector<Time> arrived;
  cluster.run([&](Comm& comm) { return count_messages(comm, arrived); });
  for (std::size_t i = 2; i < 5; ++i) EXPECT_EQ(arrived.at(i), 13500ms);
}

// All wait for each other, in one go.
Task<> wait_for_all(Comm& comm, bool contain, std::vector<std::vector<Seen>>& seen) {
  if (contain) Group(comm).contain_losses();
  std::vector<Task<>> waits;
  for (int peer = 0; peer < comm.size(); ++peer) {
    if (peer != comm.rank()) {
      waits.push_back(await_message(
          comm, peer, seen[static_cast<std::size_t>(comm.rank())][static_cast<std::size_t>(peer)]));
    }
  }
  waits.push_back(sleep_until(comm.loop(), 1min));
  co_await all(std::move(waits));
}

std::vector<std::vector<Seen>> wait_under(const Faults& faults, int size, bool contain) {
  Cluster cluster(size, kNetwork, faults);
  std::vector<std::vector<Seen>> seen(static_cast<std::size_t>(size),
                                      std::vector<Seen>(static_cast<std::size_t>(size)));
  // Those who are still waiting in the end are told to stop.
  for (int rank = 0; rank < size; ++rank) cluster.faults().crashes.push_back({rank, 2min});
  cluster.try_run([&](Comm& comm) { return wait_for_all(comm, contain, seen); });
  return seen;
}

TEST(Partition, ThatLastsCostsTheSmallerSideEverythingAndTheLargerOneTheLost) {
  Faults faults;
  faults.partitions.push_back({{2}, 5s, 1h});
  const auto seen = wait_under(faults, 3, true);
  EXPECT_EQ(seen[0][2].error, "rank 2 was lost in a test (it does not answer)");
  EXPECT_EQ(seen[0][2].when, 15s) << "the detection takes ten seconds";
  EXPECT_TRUE(seen[0][2].lost);
  EXPECT_EQ(seen[0][1].when, Time(-1)) << "nothing is wrong between 0 and 1";
  for (const std::size_t peer : {0u, 1u}) {
    EXPECT_EQ(
        seen[2][peer].error,
        "cut off from rank 0, 1; as these may go on without it, it stops; see to its network");
    EXPECT_EQ(seen[2][peer].when, 15s);
  }
}

TEST(Partition, OfEqualHalvesLeavesTheOneWithTheLowestRank) {
  Faults faults;
  faults.partitions.push_back({{0, 2}, 5s, 1h});
  const auto seen = wait_under(faults, 4, true);
  for (const std::size_t rank : {0u, 2u}) {
    EXPECT_EQ(seen[rank][1].named, 1);
    EXPECT_EQ(seen[rank][3].named, 3);
    EXPECT_EQ(seen[rank][2 - rank].when, Time(-1));
  }
  for (const std::size_t rank : {1u, 3u}) {
    for (const std::size_t peer : {0u, 2u})
      EXPECT_TRUE(seen[rank][peer].error.starts_with("cut off"));
  }
}

Task<> send_long(Comm& comm, std::vector<std::byte>& payload, std::string& outcome) {
  if (comm.rank() == 0) {
    co_await sleep_until(comm.loop(), 2s);
    try {
      co_await comm.send(1, kOne, std::span(payload));
      outcome = "sent";
    } catch (const PeerLost& lost) {
      outcome = lost.what();
    }
  } else {
    co_await sleep_until(comm.loop(), 1min);
  }
}

Task<> send_to_a_sleeper(Comm& comm, std::vector<std::byte>& payload, Time& finished) {
  if (comm.rank() == 0) {
    co_await sleep_until(comm.loop(), 2s);
    co_await comm.send(1, kOne, std::span(payload));
    finished = comm.loop().now();
  } else {
    std::vector<std::byte> place(payload.size());
    co_await comm.receive(0, kOne, std::span(place));
  }
}

TEST(Partition, LetsTheKernelTakeWhatItCanAndNoMore) {
  for (const auto& [bytes, expected] :
       {std::pair{100'000, "sent"},
        std::pair{1'000'000, "rank 1 was lost in a test (it does not answer)"}}) {
    Faults faults;
    faults.partitions.push_back({{1}, 1s, 1h});
    Cluster cluster(2, kNetwork, faults);
    std::vector<std::byte> payload(static_cast<std::size_t>(bytes));
    std::string outcome;
    cluster.try_run([&](Comm& comm) { return send_long(comm, payload, outcome); });
    EXPECT_EQ(outcome, expected);
  }
}

TEST(Pause, LetsTheKernelTakeWhatItCanAndNoMore) {
  for (const auto& [bytes, sent] :
       {std::pair{100'000, Time(2s)}, std::pair{1'000'000, Time(20s)}}) {
    Faults faults;
    faults.pauses = {{{1s, 20s}, 1}};
    Cluster cluster(2, kNetwork, faults);
    std::vector<std::byte> payload(static_cast<std::size_t>(bytes));
    Time finished{0};
    cluster.run([&](Comm& comm) { return send_to_a_sleeper(comm, payload, finished); });
    EXPECT_EQ(std::chrono::floor<std::chrono::seconds>(finished), sent);
  }
}

// Rank 1 is stopped when rank 2 ends, and hears of it when it goes on.
TEST(Pause, ARankHearsAfterwardsOfWhatHasHappened) {
  for (const bool by_partition : {false, true}) {
    Faults faults;
    faults.pauses = {{{1s, 30s}, 1}};
    if (by_partition) {
      faults.partitions = {{{2}, 2s, 1h}};
    } else {
      faults.crashes = {{2, 2s}};
    }
    const auto seen = wait_under(faults, 3, true);
    EXPECT_EQ(seen[0][2].when, by_partition ? Time(12s) : 2s + 100us);
    EXPECT_EQ(seen[1][2].when, 30s);
    EXPECT_EQ(seen[1][2].named, 2);
  }
}

Task<> nap(Comm& comm, std::vector<Time>& ends) {
  for (int i = 0; i < 3; ++i) co_await sleep_until(comm.loop(), comm.loop().now() + 1s);
  ends.push_back(comm.loop().now());
}

TEST(Drift, MakesAClockFastOrSlow) {
  for (const int millionths : {-50'000, -3, 0, 7, 50'000}) {
    Faults faults;
    faults.drifts = {{0, millionths}};
    Cluster cluster(1, kNetwork, faults);
    std::vector<Time> ends;
    cluster.run([&](Comm& comm) { return nap(comm, ends); });
    EXPECT_GE(ends.at(0), 3s);
    EXPECT_LE(ends.at(0), 3s + 5ns);
    EXPECT_NEAR(static_cast<double>(cluster.loop().now().count()), 3e9 / (1 + millionths * 1e-6),
                5);
  }
}

}  // namespace
}  // namespace starling
