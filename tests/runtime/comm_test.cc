#include "runtime/comm.h"

#include <gtest/gtest.h>

#include "sim/cluster.h"

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

}  // namespace
}  // namespace starling
