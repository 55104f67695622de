// The vector loops beside plain ones, at every length around a vector register's and beyond.
#include "math/vector_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "tests/math/lengths.h"
#include "tests/on_every_machine.h"

namespace starling {
namespace {

std::vector<float> some(std::size_t count, std::uint64_t seed) {
  Random random{seed, count};
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.uniform(-1, 1));
  return values;
}

// into[i] = expected(into[i], x[i]), for all lengths, and nothing behind.
template <class Operation, class Expected>
void expect_each(const Operation& operation, const Expected& expected) {
  for (std::size_t length : lengths()) {
    std::vector<float> into = some(length + 1, 1);
    const std::vector<float> before = into, x = some(length, 2);
    operation(std::span(into).first(length), std::span<const float>(x));
    for (std::size_t i = 0; i < length; ++i) {
      ASSERT_NEAR(into[i], expected(before[i], x[i]), 2e-7) << i << " of " << length;
    }
    ASSERT_EQ(into.back(), before.back()) << length;
  }
}

// Ranks on unlike machines must come to the same bits: neither how many elements a vector has, and so
// which stand behind the last whole one, nor an instruction that rounds once may be seen.
TEST(VectorMath, RoundsAProductBeforeItIsTakenAway) {
  for (std::size_t length : lengths()) {
    std::vector<float> into = some(length, 1);
    const std::vector<float> before = into, x = some(length, 2);
    subtract_scaled(into, x, 0.7f);
    for (std::size_t i = 0; i < length; ++i) {
      const volatile float product = 0.7f * x[i];
      ASSERT_EQ(into[i], before[i] - product) << i << " of " << length;
    }
  }
}

// Vectors begin anywhere, and what is behind their end is somebody else's.
TEST(VectorMath, GoesOnMachinesWithoutMasks) {
  on_every_machine([] {
    for (std::size_t length : lengths()) {
      const std::vector<float> x = some(length + 2, 1), other = some(length + 2, 2);
      std::vector<float> into = x;
      const auto inside = [&](auto& values) { return std::span(values).subspan(1, length); };
      add(inside(into), inside(other));
      blend(inside(into), inside(other), 0.5f);
      double square = 0, product = 0;
      for (std::size_t i = 1; i <= length; ++i) {
        ASSERT_NEAR(into[i], x[i] / 2 + other[i], 2e-7) << i << " of " << length;
        square += std::pow(static_cast<double>(x[i]) - static_cast<double>(other[i]), 2);
        product += static_cast<double>(x[i]) * static_cast<double>(other[i]);
      }
      ASSERT_EQ(into.front(), x.front());
      ASSERT_EQ(into.back(), x.back());
      ASSERT_NEAR(squared_distance(inside(x), inside(other)), square, 1e-5 * (1 + square));
      ASSERT_NEAR(dot(inside(x), inside(other)), product, 1e-5 * (1 + square));
    }
  });
}

TEST(VectorMath, Adds) {
  expect_each([](auto into, auto x) { add(into, x); }, [](float a, float b) { return a + b; });
}

TEST(VectorMath, Averages) {
  expect_each([](auto into, auto x) { average(into, x); },
              [](float a, float b) { return (a + b) / 2; });
}

TEST(VectorMath, Blends) {
  expect_each([](auto into, auto x) { blend(into, x, 0.3f); },
              [](float a, float b) { return 0.7f * a + 0.3f * b; });
}

TEST(VectorMath, Scales) {
  expect_each([](auto into, auto) { scale(into, -1.5f); },
              [](float a, float) { return -1.5f * a; });
}

TEST(VectorMath, SubtractsScaled) {
  expect_each([](auto into, auto x) { subtract_scaled(into, x, 0.3f); },
              [](float a, float b) { return a - 0.3f * b; });
}

TEST(VectorMath, SubtractsScaledAndCopiesAlsoOntoWhatItSubtracts) {
  for (std::size_t length : lengths()) {
    std::vector<float> into = some(length, 1), expected = into, x = some(length, 2);
    subtract_scaled(expected, x, 0.3f);
    subtract_scaled(into, x, 0.3f, x);
    EXPECT_EQ(into, expected) << length;
    EXPECT_EQ(x, expected) << length;
  }
}

TEST(VectorMath, MeasuresDistances) {
  for (std::size_t length : lengths()) {
    const std::vector<float> a = some(length, 1), b = some(length, 2);
    double expected = 0;
    for (std::size_t i = 0; i < length; ++i) {
      expected += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    }
    EXPECT_NEAR(squared_distance(a, b), expected, 1e-5 * expected) << length;
  }
}

TEST(VectorMath, MultipliesVectors) {
  for (std::size_t length : lengths()) {
    const std::vector<float> a = some(length, 1), b = some(length, 2);
    double expected = 0, squares = 0;
    for (std::size_t i = 0; i < length; ++i) {
      const double product = static_cast<double>(a[i]) * static_cast<double>(b[i]);
      expected += product;
      squares += product * product;
    }
    EXPECT_NEAR(dot(a, b), expected, 1e-5 * std::sqrt(squares)) << length;
  }
}

}  // namespace
}  // namespace starling
