#include "runtime/scratch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace starling {
namespace {

TEST(Scratch, LendsTheSameMemoryAgainAfterTheLoan) {
  ScratchPool pool;
  const float* first = nullptr;
  {
    const Scratch<float> loan(pool, 1000);
    EXPECT_EQ(loan.span().size(), 1000u);
    std::ranges::fill(loan.span(), 1.5f);
    first = loan.span().data();
  }
  const Scratch<float> again(pool, 900);
  EXPECT_EQ(again.span().data(), first);
  EXPECT_EQ(again.span().size(), 900u);
}

TEST(Scratch, LendsNothingTwiceAtTheSameTime) {
  ScratchPool pool;
  { const Scratch<float> earlier(pool, 100); }
  const Scratch<float> one(pool, 100), two(pool, 100);
  std::ranges::fill(one.span(), 1.0f);
  std::ranges::fill(two.span(), 2.0f);
  EXPECT_TRUE(std::ranges::all_of(one.span(), [](float value) { return value == 1.0f; }));
}

TEST(Scratch, TakesTheSmallestThatIsLargeEnough) {
  // In every order of the blocks in the pool.
  std::vector<std::size_t> sizes = {1000, 5000, 100'000};
  do {
    ScratchPool pool;
    std::byte* middle = nullptr;
    std::byte* largest = nullptr;
    {
      const Scratch<std::byte> a(pool, sizes[0]), b(pool, sizes[1]), c(pool, sizes[2]);
      for (const auto* loan : {&a, &b, &c}) {
        if (loan->span().size() == 5000) middle = loan->span().data();
        if (loan->span().size() == 100'000) largest = loan->span().data();
      }
    }
    const Scratch<std::byte> first(pool, 2000), second(pool, 2000), third(pool, 2000);
    EXPECT_EQ(first.span().data(), middle);
    EXPECT_EQ(second.span().data(), largest);
    EXPECT_NE(third.span().data(), middle);
    EXPECT_NE(third.span().data(), largest);
  } while (std::ranges::next_permutation(sizes).found);
}

TEST(Scratch, KeepsTheLastBlockUsableWhenItIsTakenFromTheEnd) {
  ScratchPool pool;
  for (int i = 0; i < 10; ++i) {
    const Scratch<int> one(pool, 10), two(pool, 20), three(pool, 30);
    std::ranges::fill(one.span(), 1);
    std::ranges::fill(two.span(), 2);
    std::ranges::fill(three.span(), 3);
    EXPECT_EQ(one.span().back() + two.span().back() + three.span().back(), 6);
  }
}

TEST(Scratch, StartsAtAMultipleOf64Bytes) {
  ScratchPool pool;
  for (std::size_t elements : {0u, 1u, 15u, 16u, 17u, 63u, 64u, 65u, 1000u, 100'001u}) {
    const Scratch<float> loan(pool, elements), other(pool, elements);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(loan.span().data()) % 64, 0u) << elements;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(other.span().data()) % 64, 0u) << elements;
  }
}

}  // namespace
}  // namespace starling
