#include "base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <vector>

namespace starling {
namespace {

// The numbers were computed by a program of our own in another language (splitmix64 over the words,
// then MT19937-64), not by this one.
TEST(Random, GivesTheSameNumbersOnEveryMachine) {
  Random one{1};
  EXPECT_EQ(one.bits(), 0x88a4d521c16da522u);
  EXPECT_EQ(one.bits(), 0xa477110896284802u);
  EXPECT_EQ(one.bits(), 0x3a7e1a0c5d7e84fdu);
  Random three{1, 2, 3};
  EXPECT_EQ(three.bits(), 0x62be3126cfa97a3fu);

  Random uniform{7};
  EXPECT_EQ(uniform.uniform(), 0x1.55063354aaefap-2);
  EXPECT_EQ(uniform.uniform(), 0x1.41206e7932d65p-1);
  Random normal{7};
  EXPECT_NEAR(normal.normal(), -0.6275460278795422, 1e-12);

  Random dice{7};
  std::vector<std::uint64_t> throws(10);
  for (auto& each : throws) each = dice.below(6);
  EXPECT_EQ(throws, (std::vector<std::uint64_t>{1, 3, 0, 3, 4, 5, 0, 2, 4, 4}));

  Random deck{5};
  std::vector<int> cards(8);
  std::iota(cards.begin(), cards.end(), 0);
  deck.shuffle(std::span(cards));
  EXPECT_EQ(cards, (std::vector<int>{0, 1, 2, 4, 7, 3, 6, 5}));
}

TEST(Random, GivesAnotherStreamForEveryOtherSeed) {
  const std::vector<Random> streams = {
      Random{},     Random{0},    Random{1},    Random{2}, Random{0, 0},    Random{1, 0},
      Random{0, 1}, Random{1, 2}, Random{2, 1}, Random{3}, Random{1, 2, 3}, Random{1, 3, 2}};
  std::set<std::uint64_t> seen;
  for (Random stream : streams) {
    for (int i = 0; i < 100; ++i) seen.insert(stream.bits());
  }
  EXPECT_EQ(seen.size(), 100 * streams.size());
}

TEST(Random, UniformStaysInItsRangeAndFillsIt) {
  Random random{11};
  std::array<int, 10> tenths{}, scaled_tenths{};
  for (int i = 0; i < 10'000; ++i) {
    const double value = random.uniform();
    ASSERT_GE(value, 0);
    ASSERT_LT(value, 1);
    ++tenths[static_cast<std::size_t>(value * 10)];
    const double scaled = random.uniform(-3, 5);
    ASSERT_GE(scaled, -3);
    ASSERT_LT(scaled, 5);
    ++scaled_tenths[static_cast<std::size_t>((scaled + 3) / 8 * 10)];
  }
  for (int count : tenths) EXPECT_NEAR(count, 1000, 150);  // five standard deviations
  for (int count : scaled_tenths) EXPECT_NEAR(count, 1000, 150);
}

TEST(Random, BelowStaysInItsRangeAndIsEven) {
  Random random{12};
  for (std::uint64_t bound : {1u, 2u, 6u, 7u, 100u}) {
    std::vector<int> counts(bound);
    for (std::uint64_t i = 0; i < 1000 * bound; ++i) {
      const std::uint64_t value = random.below(bound);
      ASSERT_LT(value, bound);
      ++counts[value];
    }
    for (int count : counts) EXPECT_NEAR(count, 1000, 160) << bound;
  }
}

// At a bound of 3/4 of all numbers a modulo would give half of its results in the first third, and
// a multiplication without rejection half of them divisible by three.
TEST(Random, BelowIsUnbiasedForABoundNearTheLargestNumber) {
  constexpr std::uint64_t kThird = std::uint64_t{1} << 62;
  Random random{13};
  int first_third = 0, divisible = 0;
  for (int i = 0; i < 30'000; ++i) {
    const std::uint64_t value = random.below(3 * kThird);
    ASSERT_LT(value, 3 * kThird);
    first_third += value < kThird ? 1 : 0;
    divisible += value % 3 == 0 ? 1 : 0;
  }
  EXPECT_NEAR(first_third, 10'000, 410);  // five standard deviations
  EXPECT_NEAR(divisible, 10'000, 410);
}

TEST(Random, ShuffleIsAPermutation) {
  Random random{14};
  for (std::size_t size : {0u, 1u, 2u, 10u, 1000u}) {
    std::vector<std::size_t> items(size);
    std::iota(items.begin(), items.end(), 0u);
    random.shuffle(std::span(items));
    std::vector<std::size_t> sorted = items;
    std::ranges::sort(sorted);
    for (std::size_t i = 0; i < size; ++i) EXPECT_EQ(sorted[i], i);
    if (size == 1000) {
      EXPECT_FALSE(std::ranges::is_sorted(items));
    }
  }
}

TEST(Random, ShuffleBringsEveryOrderEquallyOften) {
  Random random{15};
  std::map<std::array<int, 3>, int> orders;
  for (int i = 0; i < 6000; ++i) {
    std::array<int, 3> items{0, 1, 2};
    random.shuffle(std::span<int>(items));
    ++orders[items];
  }
  EXPECT_EQ(orders.size(), 6u);
  for (const auto& [order, count] : orders) EXPECT_NEAR(count, 1000, 150);
}

TEST(Random, NormalHasMeanZeroAndVarianceOne) {
  Random random{16};
  constexpr int kDraws = 100'000;
  double sum = 0, squares = 0, fourths = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double value = random.normal();
    ASSERT_TRUE(std::isfinite(value));
    sum += value;
    squares += value * value;
    fourths += value * value * value * value;
  }
  EXPECT_NEAR(sum / kDraws, 0, 0.016);  // five standard errors
  EXPECT_NEAR(squares / kDraws, 1, 0.023);
  EXPECT_NEAR(fourths / kDraws, 3, 0.16);
}

}  // namespace
}  // namespace starling
