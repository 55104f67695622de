#include "codec/sparse.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "codec/codec.h"

namespace starling {
namespace {

using Indices = std::vector<std::size_t>;

std::vector<std::byte> written(const Indices& indices, std::size_t elements) {
  std::vector<std::byte> code;
  GapWriter gaps(code, elements, indices.size());
  for (std::size_t index : indices) gaps.put(index);
  gaps.finish();
  return code;
}

Indices read(ConstBytes code, std::size_t elements, std::size_t count) {
  GapReader gaps(code, elements, count);
  Indices indices;
  for (std::size_t i = 0; i < count; ++i) indices.push_back(gaps.next());
  gaps.finish();
  return indices;
}

Indices chosen(double share, std::size_t elements, Random& random) {
  Indices indices;
  for (std::size_t i = 0; i < elements; ++i) {
    if (random.uniform() < share) indices.push_back(i);
  }
  return indices;
}

TEST(Gaps, AreReadAsTheyWereWrittenAndAreNoLongerThanTheirBound) {
  constexpr std::size_t kElements = 12;  // all of their subsets
  for (unsigned set = 0; set < 1u << kElements; ++set) {
    Indices indices;
    for (std::size_t i = 0; i < kElements; ++i) {
      if (set >> i & 1) indices.push_back(i);
    }
    const std::vector<std::byte> code = written(indices, kElements);
    ASSERT_EQ(read(code, kElements, indices.size()), indices);
    ASSERT_LE(code.size(), (largest_gap_bits(kElements, indices.size()) + 7) / 8);
  }
  Random random{1};
  for (double share : {1e-5, 1e-3, 0.01, 0.1, 0.3, 0.5, 0.9, 1.0}) {
    const Indices indices = chosen(share, 100'003, random);
    const std::vector<std::byte> code = written(indices, 100'003);
    ASSERT_EQ(read(code, 100'003, indices.size()), indices);
    ASSERT_LE(code.size(), (largest_gap_bits(100'003, indices.size()) + 7) / 8);
  }
}

TEST(Gaps, OfTheFirstAndOfTheLastElementsAreReadToo) {
  constexpr std::size_t kMany = std::size_t{1} << 32;
  for (const Indices& indices : {Indices{0}, {kMany - 1}, {0, kMany - 1}, {kMany - 2, kMany - 1}}) {
    const std::vector<std::byte> code = written(indices, kMany);
    EXPECT_EQ(read(code, kMany, indices.size()), indices);
    EXPECT_LE(code.size(), 9u);
  }
}

// The gap before them takes more zeros than are written at once, and the ones behind it none.
TEST(Gaps, OfManyLastElementsAreReadToo) {
  for (std::size_t count : {31, 32, 33, 40, 100, 333}) {
    Indices indices;
    for (std::size_t i = 0; i < count; ++i) indices.push_back(1000 - count + i);
    const std::vector<std::byte> code = written(indices, 1000);
    EXPECT_EQ(read(code, 1000, count), indices) << count;
    EXPECT_LE(code.size(), (largest_gap_bits(1000, count) + 7) / 8);
  }
}

TEST(Gaps, HaveABoundThatGrowsWithTheirNumber) {
  for (std::size_t elements : {1, 2, 3, 7, 64, 1000, 21'840}) {
    for (std::size_t count = 0; count < elements; ++count) {
      ASSERT_LE(largest_gap_bits(elements, count), largest_gap_bits(elements, count + 1))
          << count << " of " << elements;
    }
    EXPECT_EQ(largest_gap_bits(elements, elements), elements);  // a bitmap
  }
}

TEST(Gaps, TakeLittleMoreThanTheirInformation) {
  Random random{2};
  for (double chance : {0.001, 0.01, 0.1, 0.3, 0.5}) {
    constexpr double kElements = 100'000;
    const Indices indices = chosen(chance, kElements, random);
    const double share = static_cast<double>(indices.size()) / kElements;
    const double information =
        kElements * (-share * std::log2(share) - (1 - share) * std::log2(1 - share));
    EXPECT_LT(static_cast<double>(8 * written(indices, kElements).size()), 1.06 * information)
        << share;
  }
}

TEST(Gaps, AreRefusedWhenTheyLeadBehindTheEnd) {
  const std::vector<std::byte> code = written({3, 99}, 100);
  EXPECT_EQ(read(code, 100, 2), (Indices{3, 99}));
  EXPECT_THROW(read(code, 99, 2), BadCode);   // of the same width
  EXPECT_THROW(read(code, 100, 1), BadCode);  // goes on
  EXPECT_THROW(read(code, 100, 3), BadCode);
  EXPECT_THROW(read(code, 1, 2), BadCode);
  EXPECT_THROW(read({}, 100, 1), BadCode);
  EXPECT_EQ(read({}, 100, 0), Indices{});
  EXPECT_THROW(read(std::vector(20, std::byte{0}), 100, 1), BadCode);  // a gap without an end
  EXPECT_THROW(read(std::vector(20, std::byte{0xff}), 100, 100), BadCode);
}

}  // namespace
}  // namespace starling
