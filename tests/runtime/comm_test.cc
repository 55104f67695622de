#include "runtime/comm.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "runtime/group.h"
#include "sim/cluster.h"
#include "sim/sim_loop.h"

namespace starling {
namespace {

TEST(Comm, CountsAnyPositionAroundTheRing) {
  Cluster cluster(5);
  const Comm& comm = cluster.comm(0);
  EXPECT_EQ(comm.ring(-1), 4);
  EXPECT_EQ(comm.ring(0), 0);
  EXPECT_EQ(comm.ring(4), 4);
  EXPECT_EQ(comm.ring(5), 0);
  EXPECT_EQ(comm.ring(13), 3);
  EXPECT_EQ(comm.ring(-13), 2);
}

TEST(Comm, AChannelUnderAnotherNameIsTheSameChannel) {
  const Channel channel{7, Purpose::weights};
  const Channel named = channel.in("a barrier");
  EXPECT_EQ(named.id, 7u);
  EXPECT_EQ(named.purpose, Purpose::weights);
  EXPECT_STREQ(named.operation, "a barrier");
}

TEST(Comm, LendsTheSameMemoryFromOneExchangeToTheNext) {
  Cluster cluster(1);
  const float* first = cluster.comm(0).lend<float>(100).span().data();
  EXPECT_EQ(cluster.comm(0).lend<float>(100).span().data(), first);
}

// A rank without a network, to whom a loss is only told.
class Hermit : public Comm {
 public:
  using Comm::Comm;
  void lose(int peer) { note_loss(peer, Presence::dead, "it is gone"); }

 private:
  void post(Send&) override {}
  void post(Receive&) override {}
  void withdraw(Send& send) override { send.unlink(); }
  void withdraw(Receive& receive) override { receive.unlink(); }
};

constexpr Channel kOne{1}, kTwo{2};

TEST(Comm, ALossEndsWhatARankSendsToItself) {
  SimLoop loop;
  Hermit comm(loop, 0, 3);
  int out = 1, in = 0;
  auto send = comm.send(0, kOne, std::span(&out, 1));
  auto second = comm.send(0, kOne, std::span(&out, 1));
  auto receive = comm.receive(0, kTwo, std::span(&in, 1));
  comm.lose(2);
  for (const Operation* each : {static_cast<Operation*>(&send), static_cast<Operation*>(&second),
                                static_cast<Operation*>(&receive)}) {
    ASSERT_TRUE(each->done());
    EXPECT_THROW(each->await_resume(), PeerLost);
  }
  auto later = comm.send(0, kOne, std::span(&out, 1));
  EXPECT_TRUE(later.done());
  EXPECT_THROW(later.await_resume(), PeerLost);
  EXPECT_TRUE(comm.is_lost(2));
  EXPECT_EQ(comm.lost_count(), 1);
}

TEST(Comm, AContainedLossLeavesWhatARankSendsToItself) {
  SimLoop loop;
  Hermit comm(loop, 0, 3);
  Group(comm).contain_losses();
  int out = 7, in = 0;
  auto send = comm.send(0, kOne, std::span(&out, 1));
  comm.lose(2);
  EXPECT_FALSE(send.done());
  auto receive = comm.receive(0, kOne, std::span(&in, 1));
  EXPECT_TRUE(send.done() && receive.done());
  EXPECT_EQ(in, 7);
}

Task<> note_when_lost(Comm& comm, int& heard) {
  co_await comm.losses().rung();
  heard = comm.lost_count();
}

TEST(Comm, RingsWhenARankIsLost) {
  SimLoop loop;
  Hermit comm(loop, 0, 3);
  int heard = 0;
  const Running waiting(note_when_lost(comm, heard));
  loop.poll();
  EXPECT_EQ(heard, 0);
  comm.lose(1);
  loop.poll();
  EXPECT_EQ(heard, 1);
}

TEST(Comm, PassesARanksMessagesToItselfInOrderAndByChannel) {
  SimLoop loop;
  Hermit comm(loop, 0, 1);
  const std::vector<int> out = {1, 2, 3};
  std::vector<int> in(3);
  auto third = comm.receive(0, kTwo, std::span(&in[2], 1));
  auto one = comm.send(0, kOne, std::span(&out[0], 1));
  auto two = comm.send(0, kOne, std::span(&out[1], 1));
  auto three = comm.send(0, kTwo, std::span(&out[2], 1));
  auto first = comm.receive(0, kOne, std::span(&in[0], 1));
  auto second = comm.receive(0, kOne, std::span(&in[1], 1));
  EXPECT_EQ(in, out);
}

}  // namespace
}  // namespace starling
