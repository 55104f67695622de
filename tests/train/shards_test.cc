#include "train/shards.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "train/batches.h"

namespace starling {
namespace {

std::vector<std::uint8_t> labels_of(std::size_t samples) {
  std::vector<std::uint8_t> labels(samples);
  for (std::size_t i = 0; i < samples; ++i) labels[i] = static_cast<std::uint8_t>(i * 7 % 10);
  return labels;
}

std::size_t kinds(const std::vector<std::int64_t>& shard, const std::vector<std::uint8_t>& labels) {
  std::set<int> seen;
  for (std::int64_t i : shard) seen.insert(labels[static_cast<std::size_t>(i)]);
  return seen.size();
}

// How uneven: the mean over workers of the largest label's share of a shard.
double concentration(const Shards& shards, const std::vector<std::uint8_t>& labels) {
  double sum = 0;
  for (const auto& shard : shards) {
    std::vector<double> counts(10);
    for (std::int64_t i : shard) ++counts[labels[static_cast<std::size_t>(i)]];
    sum += std::ranges::max(counts) / static_cast<double>(std::max<std::size_t>(1, shard.size()));
  }
  return sum / static_cast<double>(shards.size());
}

TEST(Shards, GiveEverySampleToExactlyOneWorker) {
  for (const TrainSettings::Shards how :
       {TrainSettings::Shards::dirichlet, TrainSettings::Shards::label}) {
    for (int workers : {1, 2, 3, 5, 8, 13}) {
      for (std::size_t samples : {std::size_t{0}, std::size_t{1}, std::size_t{997}}) {
        const auto labels = labels_of(samples);
        std::vector<int> owners(samples);
        const Shards shards = share_out(labels, workers, how, 0.3, 5);
        ASSERT_EQ(shards.size(), static_cast<std::size_t>(workers));
        for (const auto& shard : shards) {
          for (std::int64_t i : shard) ++owners.at(static_cast<std::size_t>(i));
        }
        EXPECT_EQ(std::ranges::count(owners, 1), static_cast<std::ptrdiff_t>(samples)) << how;
      }
    }
  }
}

TEST(Shards, ByLabelHoldFewLabels) {
  const auto labels = labels_of(10'000);
  for (const auto& shard : share_out(labels, 5, TrainSettings::Shards::label, 1, 3)) {
    EXPECT_EQ(shard.size(), 2000u);
    EXPECT_LE(kinds(shard, labels), 4u);  // two pieces, each of which may hold the end of a label
  }
}

TEST(Shards, AreTheMoreUnevenTheSmallerAlphaIs) {
  const auto labels = labels_of(10'000);
  const auto uneven = [&](double alpha) {
    return concentration(share_out(labels, 8, TrainSettings::Shards::dirichlet, alpha, 3), labels);
  };
  EXPECT_NEAR(uneven(1000), 0.1, 0.03);  // as good as even
  EXPECT_GT(uneven(0.05), 0.5);
  EXPECT_GT(uneven(0.05), uneven(1));
  EXPECT_GT(uneven(1), uneven(1000));
}

TEST(Shards, DependOnTheSeedAlone) {
  const auto labels = labels_of(500);
  EXPECT_EQ(share_out(labels, 4, TrainSettings::Shards::dirichlet, 0.5, 1),
            share_out(labels, 4, TrainSettings::Shards::dirichlet, 0.5, 1));
  EXPECT_NE(share_out(labels, 4, TrainSettings::Shards::dirichlet, 0.5, 1),
            share_out(labels, 4, TrainSettings::Shards::dirichlet, 0.5, 2));
}

TEST(Batches, OfShardsGoThroughAWorkersOwnSamplesAgainAndAgain) {
  const Shards shards = {{0, 1, 2, 3, 4}, {}, {5, 6, 7, 8, 9, 10, 11}};
  Batches batches(12, 3, 2, 1, shards);
  EXPECT_EQ(batches.steps_per_epoch(), 2u);
  EXPECT_EQ(batches.samples_of(2), 7u);
  for (int round = 0; round < 3; ++round) {  // of worker 0's own: 2 + 2 + 1 samples
    std::multiset<std::int64_t> seen;
    for (int step = 0; step < 3; ++step) {
      const auto batch = batches.batch(static_cast<std::uint64_t>(3 * round + step), 0);
      seen.insert(batch.indices.begin(), batch.indices.end());
      EXPECT_EQ(batch.samples_of_all, 3 * batch.indices.size());
    }
    EXPECT_EQ(seen, (std::multiset<std::int64_t>{0, 1, 2, 3, 4}));
  }
  EXPECT_TRUE(batches.batch(4, 1).indices.empty());
}

}  // namespace
}  // namespace starling
