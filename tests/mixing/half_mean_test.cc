#include "mixing/half_mean.h"

#include <gtest/gtest.h>

#include <cmath>

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
  EXPECT_EQ(sent, static_cast<std::uint64_t>(size - 1) * elements * 2);
}

INSTANTIATE_TEST_SUITE_P(Sizes, HalfMean,
                         testing::Combine(testing::Values(1, 2, 3, 5, 8, 13),
                                          testing::Values<std::size_t>(0, 1, 7, 1000)));

}  // namespace
}  // namespace starling
