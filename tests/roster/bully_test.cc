#include "roster/bully.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "runtime/group.h"
#include "sim/cluster.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

constexpr Channel kChannel{5, Purpose::control};

Task<> elect(Comm& comm, Time begin, std::vector<int>& leaders) {
  Group(comm).contain_losses();
  co_await sleep_until(comm.loop(), begin);
  std::vector<int> alive;
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (!comm.is_lost(rank)) alive.push_back(rank);
  }
  const Group group(comm, alive, 1);
  Task<int> election = elect_leader(group, kChannel);
  leaders[static_cast<std::size_t>(comm.rank())] = group.in_comm(co_await election);
}

std::vector<int> elect_all(Cluster& cluster, Time begin) {
  std::vector<int> leaders(static_cast<std::size_t>(cluster.size()), -1);
  cluster.run([&](Comm& comm) { return elect(comm, begin, leaders); });
  return leaders;
}

TEST(Bully, TheHighestRankLeads) {
  for (int size : {1, 2, 3, 5, 8, 13}) {
    Cluster cluster(size, {{1e8, 1ms}, {}});
    EXPECT_EQ(elect_all(cluster, Time{0}),
              std::vector<int>(static_cast<std::size_t>(size), size - 1));
  }
}

// Rank 0's question takes so long to rank 1 that rank 2 has answered long before.
TEST(Bully, TheHighestRankLeadsWhoeverAnswersFirst) {
  const Cable slow{1e8, 20ms};
  Cluster cluster(3, {{1e8, 1ms}, {{{0, 1}, slow}}});
  EXPECT_EQ(elect_all(cluster, Time{0}), (std::vector<int>{2, 2, 2}));
}

// Whenever the lowest rank is lost, the others elect the highest: it counts for nothing.
TEST(Bully, ALostLowerRankIsNoMatter) {
  for (Time crash = 10ms; crash < 15ms; crash += 100us) {
    Cluster cluster(3, {{1e8, 1ms}, {}});
    cluster.crash(0, crash);
    const std::vector<int> leaders = elect_all(cluster, 10ms);
    EXPECT_EQ(leaders[1], 2) << crash.count();
    EXPECT_EQ(leaders[2], 2) << crash.count();
  }
}

TEST(Bully, WhoIsLostBeforehandDoesNotLead) {
  Cluster cluster(5, {{1e8, 1ms}, {}});
  cluster.crash(4, 1ms);
  cluster.crash(1, 1ms);
  EXPECT_EQ(elect_all(cluster, 10ms), (std::vector<int>{3, -1, 3, 3, -1}));
}

TEST(Bully, WhoIsLostBeforeItAnswersIsPassedOver) {
  Cluster cluster(4, {{1e8, 1ms}, {}});
  cluster.crash(3, 10ms + 500us);  // while the questions are under way
  EXPECT_EQ(elect_all(cluster, 10ms), (std::vector<int>{2, 2, 2, -1}));
}

// Rank 0 never asks, so that rank 2, which waits for that, cannot say that it leads.
Task<> elect_without_rank_0(Comm& comm) {
  Group(comm).contain_losses();
  const std::vector<int> alive = comm.rank() == 2 ? std::vector{0, 1, 2} : std::vector{1, 2};
  if (comm.rank() == 0) co_return;
  Task<int> election = elect_leader(Group(comm, alive, 1), kChannel);
  co_await election;
}

TEST(Bully, ALeaderLostBeforeItSaysSoIsAnError) {
  Cluster cluster(3, {{1e8, 1ms}, {}});
  cluster.crash(2, 5ms);
  const auto errors = cluster.try_run(elect_without_rank_0);
  ASSERT_TRUE(errors[1]);
  EXPECT_THROW(std::rethrow_exception(errors[1]), PeerLost);
}

}  // namespace
}  // namespace starling
