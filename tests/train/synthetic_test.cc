#include "train/synthetic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <set>
#include <span>
#include <vector>

namespace starling {
namespace {

constexpr std::size_t kPixels = kDigitSide * kDigitSide;

std::span<const std::uint8_t> image(const DigitSet& set, std::size_t i) {
  return std::span(set.pixels).subspan(i * kPixels, kPixels);
}

double mean_ink(std::span<const std::uint8_t> pixels) {
  return std::accumulate(pixels.begin(), pixels.end(), 0.0) / static_cast<double>(pixels.size());
}

std::uint64_t fnv1a(std::span<const std::uint8_t> bytes, std::uint64_t hash = 0xcbf29ce484222325) {
  for (std::uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

TEST(SyntheticDigits, HaveTheSizesAskedFor) {
  const Digits digits = synthetic_digits(25, 7, 1);
  EXPECT_EQ(digits.train.count, 25U);
  EXPECT_EQ(digits.train.pixels.size(), 25 * kPixels);
  EXPECT_EQ(digits.train.labels.size(), 25U);
  EXPECT_EQ(digits.train.rows, kDigitSide);
  EXPECT_EQ(digits.train.cols, kDigitSide);
  EXPECT_EQ(digits.test.count, 7U);
  EXPECT_EQ(digits.test.pixels.size(), 7 * kPixels);
}

TEST(SyntheticDigits, MayBeNone) {
  const Digits digits = synthetic_digits(0, 0, 1);
  EXPECT_TRUE(digits.train.pixels.empty());
  EXPECT_TRUE(digits.test.labels.empty());
}

// Runs on different machines are compared with each other, so their data must be the same to the
// last bit. A change here is a change of every published synthetic result.
TEST(SyntheticDigits, AreTheSamePixelsOnEveryMachine) {
  const Digits digits = synthetic_digits(1000, 100, 42);
  std::uint64_t hash = fnv1a(digits.train.pixels);
  hash = fnv1a(digits.train.labels, hash);
  hash = fnv1a(digits.test.pixels, hash);
  hash = fnv1a(digits.test.labels, hash);
  EXPECT_EQ(hash, 0xe4306630be41c050ULL);
}

TEST(SyntheticDigits, OfALargerSetStartWithTheSmallerOne) {
  const Digits small = synthetic_digits(33, 12, 5);
  const Digits large = synthetic_digits(101, 47, 5);
  EXPECT_TRUE(
      std::equal(small.train.pixels.begin(), small.train.pixels.end(), large.train.pixels.begin()));
  EXPECT_TRUE(
      std::equal(small.train.labels.begin(), small.train.labels.end(), large.train.labels.begin()));
  EXPECT_TRUE(
      std::equal(small.test.pixels.begin(), small.test.pixels.end(), large.test.pixels.begin()));
  EXPECT_TRUE(
      std::equal(small.test.labels.begin(), small.test.labels.end(), large.test.labels.begin()));
}

TEST(SyntheticDigits, DifferBetweenSeedsAndBetweenSplits) {
  const Digits one = synthetic_digits(50, 50, 1);
  const Digits two = synthetic_digits(50, 50, 2);
  std::set<std::uint64_t> seen;
  for (const DigitSet* set : {&one.train, &one.test, &two.train, &two.test}) {
    for (std::size_t i = 0; i < set->count; ++i) seen.insert(fnv1a(image(*set, i)));
  }
  EXPECT_EQ(seen.size(), 200U) << "some images repeat";
}

TEST(SyntheticDigits, HoldEachDigitOnceInEveryTen) {
  const Digits digits = synthetic_digits(200, 0, 3);
  for (std::size_t i = 0; i < digits.train.count; i += kDigitClasses) {
    std::set<std::uint8_t> block(&digits.train.labels[i], &digits.train.labels[i] + kDigitClasses);
    EXPECT_EQ(block.size(), kDigitClasses) << "from image " << i;
    EXPECT_EQ(*block.rbegin(), 9);
  }
}

TEST(SyntheticDigits, ShowEveryDigitToAWorkerThatTakesEveryTenth) {
  const Digits digits = synthetic_digits(2000, 0, 3);
  std::set<std::uint8_t> seen;
  for (std::size_t i = 0; i < digits.train.count; i += 10) seen.insert(digits.train.labels[i]);
  EXPECT_EQ(seen.size(), kDigitClasses);
}

TEST(SyntheticDigits, AreInkOnPaperWithinTheFrame) {
  const Digits digits = synthetic_digits(2000, 0, 4);
  for (std::size_t i = 0; i < digits.train.count; ++i) {
    const auto pixels = image(digits.train, i);
    EXPECT_GT(mean_ink(pixels), 4) << "image " << i << " is blank";
    EXPECT_LT(mean_ink(pixels), 110) << "image " << i << " is a blot";
    EXPECT_GT(*std::max_element(pixels.begin(), pixels.end()), 100) << "image " << i << " is faint";
  }
  // Digits stand in the middle: the frame's outer two pixels carry next to no ink.
  double border = 0;
  std::size_t border_pixels = 0;
  for (std::size_t i = 0; i < digits.train.count; ++i) {
    for (std::size_t p = 0; p < kPixels; ++p) {
      const std::size_t row = p / kDigitSide, col = p % kDigitSide;
      if (std::min(std::min(row, col), kDigitSide - 1 - std::max(row, col)) >= 2) continue;
      border += image(digits.train, i)[p];
      ++border_pixels;
    }
  }
  EXPECT_LT(border / static_cast<double>(border_pixels), mean_ink(digits.train.pixels) / 3);
}

// The mean image of each digit is the simplest classifier there is. It must do far better than
// chance, or there is nothing to learn, and far from perfectly, or there is no need for a network.
TEST(SyntheticDigits, AreLearnableButNotByTheirMeanImages) {
  const Digits digits = synthetic_digits(3000, 1000, 6);
  std::vector<std::array<double, kPixels>> means(kDigitClasses);
  for (std::size_t i = 0; i < digits.train.count; ++i) {
    auto& mean = means[digits.train.labels[i]];
    for (std::size_t p = 0; p < kPixels; ++p) mean[p] += image(digits.train, i)[p] / 300.0;
  }
  std::size_t right = 0;
  for (std::size_t i = 0; i < digits.test.count; ++i) {
    std::size_t best = 0;
    double best_distance = std::numeric_limits<double>::max();
    for (std::size_t digit = 0; digit < kDigitClasses; ++digit) {
      double distance = 0;
      for (std::size_t p = 0; p < kPixels; ++p) {
        const double difference = image(digits.test, i)[p] - means[digit][p];
        distance += difference * difference;
      }
      if (distance < best_distance) {
        best_distance = distance;
        best = digit;
      }
    }
    right += best == digits.test.labels[i];
  }
  EXPECT_GT(right, 500U);
  EXPECT_LT(right, 900U);
  RecordProperty("right_of_1000", static_cast<int>(right));
}

}  // namespace
}  // namespace starling
