#include "topology/binomial_tree.h"

#include <gtest/gtest.h>

#include <vector>

namespace starling {
namespace {

// The ranks that the header's rule makes children of a rank: rank + 1, rank + 2, rank + 4 ... below
// its reach.
std::vector<int> children(int rank, int size) {
  std::vector<int> ranks;
  for (int distance = 1; distance < tree_reach(rank, size); distance *= 2) {
    if (rank + distance < size) ranks.push_back(rank + distance);
  }
  return ranks;
}

TEST(BinomialTree, ReachesEveryRankFromTheRootExactlyOnce) {
  for (int size = 1; size <= 40; ++size) {
    std::vector<int> visits(static_cast<std::size_t>(size));
    std::vector<int> to_visit = {0};
    while (!to_visit.empty()) {
      const int rank = to_visit.back();
      to_visit.pop_back();
      ++visits[static_cast<std::size_t>(rank)];
      for (int child : children(rank, size)) to_visit.push_back(child);
    }
    EXPECT_EQ(visits, std::vector<int>(visits.size(), 1)) << size;
  }
}

TEST(BinomialTree, ChildrenKnowTheirParents) {
  for (int size = 1; size <= 40; ++size) {
    for (int rank = 0; rank < size; ++rank) {
      for (int child : children(rank, size)) EXPECT_EQ(tree_parent(child), rank) << size;
    }
  }
}

TEST(BinomialTree, ReachIsTheDistanceToTheParent) {
  for (int rank = 1; rank < 40; ++rank) EXPECT_EQ(tree_reach(rank, 40), rank - tree_parent(rank));
}

// In the rounds of a broadcast, from the top bit down, everybody has the message when its turn to
// pass it on has come.
TEST(BinomialTree, BroadcastsInCeilLog2Rounds) {
  for (int size = 1; size <= 40; ++size) {
    std::vector<bool> has(static_cast<std::size_t>(size), false);
    has[0] = true;
    int rounds = 0;
    for (int distance = tree_reach(0, size) / 2; distance >= 1; distance /= 2, ++rounds) {
      for (int rank = 0; rank + distance < size; ++rank) {
        if (distance < tree_reach(rank, size)) {
          EXPECT_TRUE(has[static_cast<std::size_t>(rank)]) << size;
          has[static_cast<std::size_t>(rank + distance)] = true;
        }
      }
    }
    EXPECT_EQ(has, std::vector<bool>(has.size(), true)) << size;
    EXPECT_EQ(rounds, std::bit_width(static_cast<unsigned>(size - 1))) << size;
  }
}

TEST(BinomialTree, IsTheOneOfTheBooks) {
  EXPECT_EQ(children(0, 8), (std::vector<int>{1, 2, 4}));
  EXPECT_EQ(children(4, 8), (std::vector<int>{5, 6}));
  EXPECT_EQ(children(6, 8), (std::vector<int>{7}));
  EXPECT_EQ(children(4, 6), (std::vector<int>{5}));
  EXPECT_TRUE(children(7, 8).empty());
}

}  // namespace
}  // namespace starling
