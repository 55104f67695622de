// What a Comm promises beyond plain messages, in the simulator: messages to oneself, memory found
// on arrival, losses that concern only those who talk to the lost.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "base/error.h"
#include "runtime/all.h"
#include "runtime/group.h"
#include "sim/cluster.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

constexpr Channel kChannel{5, Purpose::weights, "a test"};
constexpr Channel kOther{6, Purpose::weights, "another test"};

Task<> talk_to_self(Comm& comm, std::vector<int>& got) {
  std::vector<int> values = {1, 2, 3}, first(3), second(3);
  auto early = comm.receive(comm.rank(), kChannel, std::span(first));  // before it is sent
  co_await comm.send(comm.rank(), kChannel, std::span(values));
  values = {4, 5, 6};
  auto late = comm.send(comm.rank(), kChannel, std::span(values));  // before it is asked for
  co_await early;
  co_await comm.receive(comm.rank(), kChannel, std::span(second));
  co_await late;
  got.assign(first.begin(), first.end());
  got.insert(got.end(), second.begin(), second.end());
}

TEST(SimComm, ARankCanSendToItselfAndTheLedgerDoesNotCountIt) {
  Cluster cluster(1);
  std::vector<int> got;
  cluster.run([&](Comm& comm) { return talk_to_self(comm, got); });
  EXPECT_EQ(got, (std::vector<int>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(cluster.comm(0).ledger().total(Direction::sent).wire, 0u);
}

TEST(SimComm, AnUnmatchedMessageToItselfCanBeWithdrawn) {
  Cluster cluster(1);
  int value = 7;
  { auto forgotten = cluster.comm(0).send(0, kChannel, object_bytes(value)); }
  { auto forgotten = cluster.comm(0).receive(0, kChannel, object_bytes(value)); }
  std::vector<int> got;
  cluster.run([&](Comm& comm) { return talk_to_self(comm, got); });
  EXPECT_EQ(got.size(), 6u);
}

class Shelf : public Lender {
 public:
  Bytes lend(std::size_t bytes) override {
    ++lent;
    memory.resize(bytes);
    return memory;
  }
  std::vector<std::byte> memory;
  int lent = 0;
};

Task<> lend_on_arrival(Comm& comm, Shelf& shelf, bool& lent_too_early) {
  int value = 42;
  if (comm.rank() == 1) {
    co_await sleep_until(comm.loop(), 5ms);
    co_await comm.send(0, kChannel, object_bytes(value));
    co_return;
  }
  Receive receive(comm, 1, kChannel, sizeof value, shelf);
  co_await sleep_until(comm.loop(), 4ms);
  lent_too_early = shelf.lent > 0;
  co_await receive;
}

TEST(SimComm, ALenderIsAskedWhenTheMessageComesAndNotBefore) {
  Cluster cluster(2);
  Shelf shelf;
  bool lent_too_early = true;
  cluster.run([&](Comm& comm) { return lend_on_arrival(comm, shelf, lent_too_early); });
  EXPECT_FALSE(lent_too_early);
  EXPECT_EQ(shelf.lent, 1);
  EXPECT_EQ(*reinterpret_cast<const int*>(shelf.memory.data()), 42);
}

Task<> wait_for(Comm& comm, int peer, Channel channel, std::string& outcome) {
  int value = 0;
  try {
    co_await comm.receive(peer, channel, object_bytes(value));
    outcome = std::to_string(value);
  } catch (const PeerLost& lost) {
    outcome = "lost " + std::to_string(lost.rank());
  }
}

Task<> wait_for_a_loss(Comm& comm, std::string& outcome) {
  co_await comm.losses().rung();
  outcome = std::to_string(comm.lost_count()) + (comm.is_lost(2) ? " it is 2" : "");
}

// Rank 0 waits for 1 and 2; 2 crashes at 1 ms, 1 sends at 5 ms.
Task<> lose_one(Comm& comm, bool contain, std::array<std::string, 3>& outcome) {
  int value = 7;
  if (contain) Group(comm).contain_losses();
  if (comm.rank() == 0) {
    std::vector<Task<>> waits;
    waits.push_back(wait_for(comm, 1, kChannel, outcome[0]));
    waits.push_back(wait_for(comm, 2, kOther, outcome[1]));
    waits.push_back(wait_for_a_loss(comm, outcome[2]));
    co_await all(std::move(waits));
  } else {
    co_await sleep_until(comm.loop(), 5ms);
    if (comm.rank() == 1) {
      try {
        co_await comm.send(0, kChannel, object_bytes(value));
      } catch (const PeerLost&) {
      }
    }
  }
}

TEST(SimComm, AContainedLossFailsOnlyWhatConcernsTheLost) {
  for (const bool contain : {true, false}) {
    Cluster cluster(3, {{1e9, 10us}, {}});
    cluster.crash(2, 1ms);
    std::array<std::string, 3> outcome;
    cluster.run([&](Comm& comm) { return lose_one(comm, contain, outcome); });
    EXPECT_EQ(outcome[0], contain ? "7" : "lost 2");
    EXPECT_EQ(outcome[1], "lost 2");
    EXPECT_EQ(outcome[2], "1 it is 2");
  }
}

}  // namespace
}  // namespace starling
