#include "runtime/group.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "sim/cluster.h"

namespace starling {
namespace {

constexpr Channel kChannel{5, Purpose::control, "a test"};

TEST(Group, OfAllIsTheComm) {
  Cluster cluster(3);
  const Group all(cluster.comm(1));
  EXPECT_EQ(all.rank(), 1);
  EXPECT_EQ(all.size(), 3);
  EXPECT_EQ(all.in_comm(2), 2);
  EXPECT_EQ(all.in_comm(kChannel).id, 5u);
  EXPECT_EQ(all.ring(-1), 2);
  EXPECT_EQ(all.ring(3), 0);
}

TEST(Group, OfSomeHasPlacesInItsOwnOrder) {
  Cluster cluster(6);
  const std::vector<int> ranks = {4, 1, 5};
  const Group some(cluster.comm(1), ranks, 7);
  EXPECT_EQ(some.rank(), 1);
  EXPECT_EQ(some.size(), 3);
  EXPECT_EQ(some.in_comm(0), 4);
  EXPECT_EQ(some.in_comm(2), 5);
  EXPECT_EQ(some.ring(some.rank() + 2), 0);
  EXPECT_EQ(Group(cluster.comm(2), ranks, 7).rank(), -1) << "rank 2 is not in it";
}

TEST(Group, HasChannelsOfItsOwn) {
  Cluster cluster(3);
  const Group all(cluster.comm(0));
  EXPECT_NE(all.apart(1).in_comm(kChannel).id, all.in_comm(kChannel).id);
  EXPECT_NE(all.apart(1).in_comm(kChannel).id, all.apart(2).in_comm(kChannel).id);
  EXPECT_EQ(all.apart(1).in_comm(kChannel).purpose, Purpose::control);
  EXPECT_STREQ(all.apart(1).in_comm(kChannel).operation, "a test");
  const Channel last{Group::kChannels - 1, Purpose::control};
  EXPECT_LT(all.in_comm(last).id, all.apart(1).in_comm(Channel{0}).id);
  EXPECT_DEATH(all.in_comm(Channel{Group::kChannels}), "no channel");
  EXPECT_DEATH(all.apart(Group::kNumbers), "no group");
}

TEST(Group, OfTheFirstLeavesOutTheRest) {
  Cluster cluster(5);
  EXPECT_EQ(Group(cluster.comm(1)).first(2, 1).rank(), 1);
  EXPECT_EQ(Group(cluster.comm(2)).first(2, 1).rank(), -1);
  EXPECT_EQ(Group(cluster.comm(2)).first(2, 1).size(), 2);
}

Task<> lose_one(Comm& comm, const std::vector<int>& ranks, std::string& error) {
  const Group group(comm, ranks, 1);
  if (group.rank() < 0) co_return;
  group.contain_losses();
  int value = 0;
  try {
    if (group.rank() == 0) co_await group.receive(1, kChannel, object_bytes(value));
  } catch (const PeerLost& lost) {
    EXPECT_EQ(lost.rank(), ranks[1]) << "errors name ranks of the Comm";
    EXPECT_TRUE(group.is_lost(1));
    EXPECT_EQ(group.lost_count(), 1);
    error = lost.what();
  }
  co_await sleep_until(comm.loop(), std::chrono::seconds(2));
}

TEST(Group, KnowsWhoOfItIsLost) {
  Cluster cluster(5);
  cluster.crash(3, std::chrono::seconds(1));
  cluster.crash(2, std::chrono::milliseconds(500));  // is none of its ranks
  std::string error;
  const std::vector<int> ranks = {4, 3};
  cluster.try_run([&](Comm& comm) { return lose_one(comm, ranks, error); });
  EXPECT_TRUE(error.starts_with("rank 3 was lost in a test")) << error;
}

}  // namespace
}  // namespace starling
