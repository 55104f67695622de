#include "mixing/half_mean.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.h"
#include "sim/cluster.h"

namespace starling {
namespace {

constexpr Channel kChannel{1, Purpose::weights};

class HalfMean : public testing::TestWithParam<std::tuple<int, std::size_t>> {};

TEST_P(HalfMean, IsTheMeanToHalfPrecisionAndTheSameOnAll) {
  const auto [size, elements] = GetParam();
  Random random{3, static_cast<std::uint64_t>(size), elements};
  std::vector<std::vector<float>> weights(static_cast<std::size_t>(size));
  std::vector<double> mean(elements);
  for (auto& each : weights) {
    each.resize(elements);
    for (std::size_t i = 0; i < elements; ++i) {
      each[i] = static_cast<float>(random.normal());
      mean[i] += static_cast<double>(each[i]) / size;
    }
  }
  Cluster cluster(size);
  cluster.run([&](Comm& comm) {
    return half_mean_of_all(comm, kChannel, weights[static_cast<std::size_t>(comm.rank())]);
  });
  for (const auto& each : weights) {
    EXPECT_EQ(each, weights[0]);
    for (std::size_t i = 0; i < elements; ++i) {
      EXPECT_NEAR(static_cast<double>(each[i]), mean[i], 3e-3) << i;  // 2^-10 of values up to 4
    }
  }
  const auto sent = cluster.comm(0).ledger().total(Direction::sent).payload;
  EXPECT_EQ(sent, static_cast<std::uint64_t>(size - 1) * (4 + elements * 2));
}

// A half ends at 65504; a mean does not.
TEST(HalfMeanOf, WeightsBeyondTheRangeOfAHalfIsTheirMean) {
  for (const float largest : {65504.0f, 65536.0f, 1e6f, 1e20f, -3e37f}) {
    std::vector<std::vector<float>> weights = {{largest, 1, -3}, {largest / 2, 5, -3}};
    Cluster cluster(2);
    cluster.run([&](Comm& comm) {
      return half_mean_of_all(comm, kChannel, weights[static_cast<std::size_t>(comm.rank())]);
    });
    EXPECT_EQ(weights[0], weights[1]);
    EXPECT_NEAR(weights[0][0] / largest, 0.75f, 1e-3f) << largest;
    // What is small beside the largest is as exact as that one is.
    EXPECT_NEAR(weights[0][1], 3, 1e-3f + 1e-11f * std::abs(largest)) << largest;
  }
}

TEST(HalfMeanOf, WhatDivergedShows) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<std::vector<float>> weights = {
      {kInfinity, 1, 1e6f}, {2, std::nanf(""), 1e6f}, {3, 1, 1e6f}};
  Cluster cluster(3);
  cluster.run([&](Comm& comm) {
    return half_mean_of_all(comm, kChannel, weights[static_cast<std::size_t>(comm.rank())]);
  });
  for (const auto& each : weights) {
    EXPECT_EQ(each[0], kInfinity);
    EXPECT_TRUE(std::isnan(each[1]));
    EXPECT_NEAR(each[2], 1e6f, 1e3f) << "the range is that of the others";
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, HalfMean,
                         testing::Combine(testing::Values(1, 2, 3, 5, 8, 13),
                                          testing::Values<std::size_t>(0, 1, 7, 1000)));

}  // namespace
}  // namespace starling
