#include "train/batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace starling {
namespace {

std::vector<std::int64_t> taken(Batches& batches, std::uint64_t step, int workers) {
  std::vector<std::int64_t> all;
  for (int rank = 0; rank < workers; ++rank) {
    const auto batch = batches.batch(step, rank);
    all.insert(all.end(), batch.indices.begin(), batch.indices.end());
  }
  return all;
}

TEST(Batches, TakeEverySampleExactlyOnceInAnEpoch) {
  for (std::size_t samples : {1u, 7u, 64u, 100u, 1003u}) {
    for (int workers : {1, 2, 3, 5, 8}) {
      for (int batch : {1, 4, 64}) {
        Batches batches(samples, workers, batch, 1);
        std::multiset<std::int64_t> seen;
        for (std::uint64_t step = 0; step < batches.steps_per_epoch(); ++step) {
          const auto all = taken(batches, step, workers);
          seen.insert(all.begin(), all.end());
          EXPECT_EQ(batches.batch(step, 0).samples_of_all, all.size());
        }
        ASSERT_EQ(seen.size(), samples);
        for (std::size_t i = 0; i < samples; ++i) {
          ASSERT_EQ(seen.count(static_cast<std::int64_t>(i)), 1u);
        }
      }
    }
  }
}

TEST(Batches, GiveManyWorkersWhatOneWorkerWithABatchAsLargeGets) {
  Batches four(1000, 4, 8, 5), one(1000, 1, 32, 5);
  ASSERT_EQ(four.steps_per_epoch(), one.steps_per_epoch());
  for (std::uint64_t step = 0; step < 2 * four.steps_per_epoch(); ++step) {
    EXPECT_EQ(taken(four, step, 4), taken(one, step, 1));
  }
}

TEST(Batches, AreShuffledAnewEachEpochAndByTheSeed) {
  Batches batches(100, 1, 100, 1), same(100, 1, 100, 1), other(100, 1, 100, 2);
  const auto first = taken(batches, 0, 1);
  EXPECT_NE(first, taken(batches, 1, 1));
  EXPECT_EQ(first, taken(same, 0, 1));
  EXPECT_NE(first, taken(other, 0, 1));
  EXPECT_FALSE(std::ranges::is_sorted(first));
}

TEST(Batches, ShareTheLastFewSamplesOutEvenly) {
  Batches batches(10, 4, 2, 1);  // 8 and then 2 for 4 workers
  ASSERT_EQ(batches.steps_per_epoch(), 2u);
  std::vector<std::size_t> sizes;
  for (int rank = 0; rank < 4; ++rank) sizes.push_back(batches.batch(1, rank).indices.size());
  EXPECT_EQ(sizes, (std::vector<std::size_t>{1, 1, 0, 0}));
}

}  // namespace
}  // namespace starling
