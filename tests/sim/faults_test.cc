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
  faults.crashes[2] = 205ms;
  faults.failures[1] = 1500us;
  faults.partitions.push_back({{0, 3}, 1s, 31s});
  std::ostringstream out;
  out << faults;
  EXPECT_EQ(
      out.str(),
      "seed 7, rank 2 crashes at 205 ms, rank 1 fails at 1.5 ms, rank 0 and 3 is cut off from "
      "1000 ms to 31000 ms, detected in 10000 ms");
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
  faults.failures[1] = 2s;
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
  faults.crashes[1] = 2s;
  const Waited waited = wait_for_one(faults, 1h);
  EXPECT_EQ(what(waited.errors[1]), "");
  for (const std::size_t rank : {0u, 2u}) {
    EXPECT_EQ(waited.seen[rank].when, 2s + 100us);
    EXPECT_TRUE(waited.seen[rank].lost);
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
  for (int rank = 0; rank < size; ++rank) cluster.faults().crashes[rank] = 2min;
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

}  // namespace
}  // namespace starling
