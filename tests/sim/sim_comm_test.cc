// What a Comm promises beyond plain messages, in the simulator: messages to oneself, memory found
// on arrival, losses that concern only those who talk to the lost.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "base/error.h"
#include "runtime/all.h"
#include "runtime/group.h"
#include "sim/cluster.h"
#include "tests/chest.h"

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

Task<> lend_on_arrival(Comm& comm, Chest& chest, bool& lent_too_early) {
  int value = 42;
  if (comm.rank() == 1) {
    co_await sleep_until(comm.loop(), 5ms);
    co_await comm.send(0, kChannel, object_bytes(value));
    co_return;
  }
  Receive receive(comm, 1, kChannel, 100, chest);
  co_await sleep_until(comm.loop(), 4ms);
  lent_too_early = chest.lent > 0;
  co_await receive;
}

TEST(SimComm, ALenderIsAskedWhenTheMessageComesAndNotBefore) {
  Cluster cluster(2);
  Chest chest;
  bool lent_too_early = true;
  cluster.run([&](Comm& comm) { return lend_on_arrival(comm, chest, lent_too_early); });
  EXPECT_FALSE(lent_too_early);
  EXPECT_EQ(chest.lent, 1);
  EXPECT_EQ(*reinterpret_cast<const int*>(chest.memory.data()), 42);
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

// Rank 1 sends rank 0, and itself, messages of several sizes with a head each.
Task<> send_with_heads(Comm& comm, int to, std::vector<std::size_t> sizes) {
  for (std::size_t size : sizes) {
    std::uint32_t head = static_cast<std::uint32_t>(size) + 7;
    const std::vector<std::byte> bytes(size, static_cast<std::byte>(size));
    co_await Group(comm).send(to, kChannel, object_bytes(head), ConstBytes(bytes));
  }
}
Task<> receive_with_heads(Comm& comm, const std::vector<std::size_t>& sizes) {
  for (std::size_t size : sizes) {
    Chest chest;
    std::uint32_t head = 0;
    co_await Group(comm).receive(1, kChannel, object_bytes(head), 300'000, chest);
    EXPECT_EQ(head, size + 7);
    EXPECT_EQ(chest.memory, std::vector<std::byte>(size, static_cast<std::byte>(size)));
  }
}

TEST(SimComm, AReceiveWithABoundIsSizedOnArrival) {
  const std::vector<std::size_t> sizes = {0, 1, 13, 299'999, 300'000};
  Cluster cluster(2, {{1e9, 1us}, {}});
  cluster.run([&](Comm& comm) {
    return comm.rank() == 1 ? send_with_heads(comm, 0, sizes) : receive_with_heads(comm, sizes);
  });
  cluster.run([&](Comm& comm) -> Task<> {
    std::vector<Task<>> both;
    if (comm.rank() == 1) both.push_back(receive_with_heads(comm, sizes));
    if (comm.rank() == 1) both.push_back(send_with_heads(comm, 1, sizes));
    return all(std::move(both));
  });
}

Task<> receive_into(Comm& comm, std::size_t most, Chest& chest, std::string& error) {
  try {
    std::uint32_t head = 0;
    co_await Group(comm).receive(1, kChannel, object_bytes(head), most, chest);
  } catch (const PeerLost& lost) {
    error = lost.what();
  }
}
Task<> send_and_wait(Comm& comm, std::string& error) {
  try {
    co_await send_with_heads(comm, 0, std::vector<std::size_t>(1, 100));
    int never = 0;
    co_await comm.receive(0, kOther, object_bytes(never));
  } catch (const PeerLost& lost) {
    error = lost.what();
  }
}

TEST(SimComm, AMessageThatDoesNotFitIsAnErrorToBoth) {
  for (const bool first_sent : {true, false}) {
    Cluster cluster(2, {{1e9, 1us}, {}});
    Chest chest;
    std::string here, there;
    cluster.run([&](Comm& comm) -> Task<> {
      struct Late {
        static Task<> receive(Comm& c, bool late, Chest& s, std::string& error) {
          if (late) co_await sleep_until(c.loop(), 1ms);
          co_await receive_into(c, 99, s, error);
        }
      };
      return comm.rank() == 1 ? send_and_wait(comm, there)
                              : Late::receive(comm, first_sent, chest, here);
    });
    EXPECT_NE(here.find("rank 1 sent 104 bytes in a test where 103 were the most"),
              std::string::npos)
        << here;
    EXPECT_NE(there.find("it has lost us"), std::string::npos) << there;
    EXPECT_EQ(chest.lent, 0);
  }
}

Task<> make_room_later(Comm& comm, Chest& chest, std::vector<int>& order) {
  std::uint32_t head = 0;
  int word = 0;
  Receive letter(comm, 1, kChannel, 100, chest, object_bytes(head));
  co_await comm.receive(1, kOther, object_bytes(word));
  order.push_back(word);
  EXPECT_FALSE(letter.done());
  chest.is_full = false;
  letter.ask_again();
  co_await letter;
  order.push_back(static_cast<int>(head));
}
Task<> send_letter_and_word(Comm& comm) {
  int word = 5;
  co_await send_with_heads(comm, 0, std::vector<std::size_t>(1, 100));
  co_await comm.send(0, kOther, object_bytes(word));
}

TEST(SimComm, AMessageWithoutRoomLetsOthersThroughAndLandsWhenThereIsSome) {
  Cluster cluster(2, {{1e9, 1us}, {}});
  Chest chest;
  chest.is_full = true;
  std::vector<int> order;
  cluster.run([&](Comm& comm) {
    return comm.rank() == 1 ? send_letter_and_word(comm) : make_room_later(comm, chest, order);
  });
  EXPECT_EQ(order, (std::vector<int>{5, 107}));
  EXPECT_EQ(chest.memory, std::vector<std::byte>(100, std::byte{100}));
}

TEST(SimComm, AReceiveWithoutRoomFailsWithItsPeer) {
  Cluster cluster(2, {{1e9, 1us}, {}});
  Chest chest;
  chest.is_full = true;
  std::string error;
  cluster.crash(1, 1ms);
  cluster.try_run([&](Comm& comm) -> Task<> {
    struct Sender {
      static Task<> send(Comm& c) {
        co_await send_with_heads(c, 0, std::vector<std::size_t>(1, 50));
        co_await sleep_until(c.loop(), 1s);
      }
    };
    return comm.rank() == 1 ? Sender::send(comm) : receive_into(comm, 100, chest, error);
  });
  EXPECT_NE(error.find("rank 1 was lost"), std::string::npos) << error;
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
