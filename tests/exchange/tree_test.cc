#include "exchange/tree.h"

#include <gtest/gtest.h>

#include <vector>

#include "sim/cluster.h"
#include "tests/exchange/vectors.h"

namespace starling {
namespace {

Task<> reduce_and_broadcast(Comm& comm, Group group, std::vector<float>& sum,
                            std::vector<float>& values) {
  if (comm.rank() < group.first || comm.rank() >= group.first + group.size) co_return;
  co_await tree_reduce(comm, kWeights, group, values);
  sum = values;
  co_await tree_broadcast(comm, kWeights, group, values);
}

// Each group among more ranks than are its own, before and behind it.
TEST(Tree, SumsUpAGroupAtItsFirstRankAndTellsAllOfIt) {
  for (int size : {1, 2, 3, 4, 5, 7, 8, 13}) {
    for (int first : {0, 1, 3, 8}) {
      Cluster cluster(first + size + 2);
      const auto ranks = static_cast<std::size_t>(cluster.size());
      std::vector<std::vector<float>> values, sums(ranks);
      float expected = 0;
      for (int rank = 0; rank < cluster.size(); ++rank) {
        values.push_back({static_cast<float>(1 << rank)});
        if (rank >= first && rank < first + size) expected += values.back()[0];
      }
      const std::vector<std::vector<float>> before = values;
      cluster.run([&](Comm& comm) {
        const auto rank = static_cast<std::size_t>(comm.rank());
        return reduce_and_broadcast(comm, {first, size}, sums[rank], values[rank]);
      });
      EXPECT_EQ(sums[static_cast<std::size_t>(first)][0], expected) << first << " " << size;
      for (int rank = 0; rank < cluster.size(); ++rank) {
        const auto at = static_cast<std::size_t>(rank);
        const bool member = rank >= first && rank < first + size;
        EXPECT_EQ(values[at][0], member ? expected : before[at][0])
            << "rank " << rank << " of a group of " << size << " from " << first;
      }
    }
  }
}

}  // namespace
}  // namespace starling
