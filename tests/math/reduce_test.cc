// Every reduction of every element type beside the plain loop, bit for bit, for all lengths around a
// vector register's, in aligned memory and beside it.
#include "math/reduce.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/half.h"
#include "base/random.h"
#include "tests/error_of.h"
#include "tests/math/lengths.h"

namespace starling {
namespace {

// What the plain loop computes with, for each type.
float wide(Half value) { return from_half(value); }
float wide(Bfloat value) { return from_bfloat(value); }
template <class T>
T wide(T value) {
  return value;
}
template <class T, class Wide>
T narrow(Wide value) {
  if constexpr (std::is_same_v<T, Half>) {
    return to_half(value);
  } else if constexpr (std::is_same_v<T, Bfloat>) {
    return to_bfloat(value);
  } else {
    return static_cast<T>(value);
  }
}

template <class T>
T plain(Reduction reduction, T a_narrow, T b_narrow) {
  if constexpr (std::is_integral_v<T>) {
    if (reduction == Reduction::bits_and) return static_cast<T>(a_narrow & b_narrow);
    if (reduction == Reduction::bits_or) return static_cast<T>(a_narrow | b_narrow);
    if (reduction == Reduction::bits_xor) return static_cast<T>(a_narrow ^ b_narrow);
  }
  if constexpr (std::is_same_v<T, bool>) {
    return reduction == Reduction::sum || reduction == Reduction::max ? a_narrow || b_narrow
                                                                      : a_narrow && b_narrow;
  } else {
    const auto a = wide(a_narrow);
    const auto b = wide(b_narrow);
    if (reduction == Reduction::min) return b < a ? b_narrow : a_narrow;
    if (reduction == Reduction::max) return a < b ? b_narrow : a_narrow;
    if constexpr (std::is_integral_v<T>) {
      const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
      return static_cast<T>(reduction == Reduction::product ? x * y : x + y);
    } else {
      return narrow<T>(reduction == Reduction::product ? a * b : a + b);
    }
  }
}

template <class T>
std::vector<T> some(std::size_t count, std::uint64_t seed) {
  Random random{seed, count, sizeof(T)};
  std::vector<T> values(count);
  if constexpr (std::is_same_v<T, bool>) {
    for (std::size_t i = 0; i < count; ++i) values[i] = random.uniform() < 0.5;
  } else {
    for (T& value : values) {
      if constexpr (std::is_integral_v<T>) {
        value = static_cast<T>(random.uniform(-1e9, 1e9));
      } else {
        // Over all magnitudes: subnormal, normal and too large.
        const double magnitude = std::exp2(random.uniform(-30, 20));
        value = narrow<T>(static_cast<std::conditional_t<sizeof(T) == 8, double, float>>(
            random.uniform() < 0.5 ? magnitude : -magnitude));
      }
    }
  }
  return values;
}

// Bytes of the values, `shift` bytes behind a cache line.
template <class T>
class Shifted {
 public:
  Shifted(const std::vector<T>& values, std::size_t shift) : shift_(shift), size_(values.size()) {
    bytes_.resize(64 + shift + values.size() * sizeof(T) + 1, std::byte{0xee});
    std::size_t i = 0;
    for (const T value : values) set(i++, value);
  }
  Vector vector() { return {kElementOf<T>, begin(), size_}; }
  T get(std::size_t i) {
    T value;
    std::memcpy(&value, begin() + i * sizeof(T), sizeof(T));
    return value;
  }
  bool untouched_behind() { return begin()[size_ * sizeof(T)] == std::byte{0xee}; }

 private:
  void set(std::size_t i, T value) { std::memcpy(begin() + i * sizeof(T), &value, sizeof(T)); }
  std::byte* begin() {
    const auto address = reinterpret_cast<std::uintptr_t>(bytes_.data());
    return bytes_.data() + (64 - address % 64) % 64 + shift_;
  }
  std::size_t shift_, size_;
  std::vector<std::byte> bytes_;
};

template <class T>
bool same_bits(T a, T b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

template <class T>
class Reduces : public testing::Test {};
using Types = testing::Types<float, double, Half, Bfloat, std::uint8_t, std::int8_t, std::int16_t,
                             std::int32_t, std::int64_t, bool>;
TYPED_TEST_SUITE(Reduces, Types);

TYPED_TEST(Reduces, AsThePlainLoop) {
  using T = TypeParam;
  for (const Reduction reduction :
       {Reduction::sum, Reduction::min, Reduction::max, Reduction::product, Reduction::bits_and,
        Reduction::bits_or, Reduction::bits_xor}) {
    if (!std::is_integral_v<T> && reduction >= Reduction::bits_and) {
      EXPECT_EQ(
          error_of([&] { combiner(kElementOf<T>, reduction); }),
          fmt::format("there is no {} of {}", kReductionNames[static_cast<std::size_t>(reduction)],
                      info(kElementOf<T>).name));
      continue;
    }
    for (const std::size_t length : lengths()) {
      for (const std::size_t shift : {0u, 1u, 3u, 8u}) {
        const std::vector<T> a = some<T>(length, 1), b = some<T>(length, 2);
        Shifted<T> into(a, shift), x(b, shift / 2);
        combine(into.vector(), x.vector(), reduction);
        for (std::size_t i = 0; i < length; ++i) {
          ASSERT_TRUE(same_bits<T>(into.get(i), plain<T>(reduction, a[i], b[i])))
              << kReductionNames[static_cast<std::size_t>(reduction)] << " " << i << " of "
              << length << ", shifted by " << shift;
        }
        ASSERT_TRUE(into.untouched_behind());
      }
    }
  }
}

TYPED_TEST(Reduces, TheMeanByDividingTheSum) {
  using T = TypeParam;
  if constexpr (std::is_same_v<T, bool>) {
    EXPECT_EQ(error_of([] { combiner(Element::boolean, Reduction::mean); }),
              "there is no mean of bool");
  } else {
    for (const std::size_t length : lengths()) {
      for (const int count : {1, 2, 3, 7}) {
        const std::vector<T> before = some<T>(length, 3);
        Shifted<T> values(before, 1);
        conclude(values.vector(), Reduction::mean, count);
        for (std::size_t i = 0; i < length; ++i) {
          T expected;
          if constexpr (std::is_integral_v<T>) {
            expected = static_cast<T>(before[i] / count);
          } else {
            using Wide = decltype(wide(before[i]));
            expected = count == 1
                           ? before[i]
                           : narrow<T>(wide(before[i]) * (Wide{1} / static_cast<Wide>(count)));
          }
          ASSERT_TRUE(same_bits<T>(values.get(i), expected)) << i << " of " << length;
        }
        Shifted<T> sums(before, 1);
        conclude(sums.vector(), Reduction::sum, count);
        for (std::size_t i = 0; i < length; ++i) ASSERT_TRUE(same_bits<T>(sums.get(i), before[i]));
      }
    }
  }
}

// All 65,536 halves and bfloats, and the floats between them.
TEST(SixteenBits, AreRoundedToTheNearestAndBack) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const Half half{static_cast<std::uint16_t>(bits)};
    const bool is_nan = (bits & 0x7fff) > 0x7c00;
    const float value = from_half(half);
    ASSERT_EQ(std::isnan(value), is_nan) << bits;
    if (!is_nan) {
      ASSERT_EQ(to_half(value), half) << bits;
    }
    const Bfloat bfloat{static_cast<std::uint16_t>(bits)};
    if (!std::isnan(from_bfloat(bfloat))) {
      ASSERT_EQ(to_bfloat(from_bfloat(bfloat)), bfloat);
    }
    if ((bits & 0x7fff) >= 0x7bff) continue;
    const float next = from_half(Half{static_cast<std::uint16_t>(bits + 1)});
    const float middle = (value + next) / 2;  // a tie: to the even one
    ASSERT_EQ(to_half(middle).bits, bits % 2 == 0 ? bits : bits + 1) << bits;
    ASSERT_EQ(to_half(std::nextafter(middle, value)), half) << bits;
    ASSERT_EQ(to_half(std::nextafter(middle, next)).bits, bits + 1) << bits;
  }
  EXPECT_EQ(to_half(65519.99f).bits, 0x7bff);
  EXPECT_EQ(to_half(65520).bits, 0x7c00) << "too large is infinite";
  EXPECT_EQ(to_half(-std::numeric_limits<float>::infinity()).bits, 0xfc00);
  EXPECT_TRUE(std::isnan(from_half(to_half(NAN))));
  EXPECT_TRUE(std::isnan(from_bfloat(to_bfloat(NAN))));
  EXPECT_EQ(to_bfloat(std::numeric_limits<float>::max()).bits, 0x7f80);
}

TEST(Reductions, ThatCannotBeComparedKeepTheFirst) {
  std::vector<float> a = {NAN, 1, 0.0f}, b = {1, NAN, -0.0f};
  combine(a, std::span<const float>(b), Reduction::min);
  EXPECT_TRUE(std::isnan(a[0]));
  EXPECT_EQ(a[1], 1);
  EXPECT_FALSE(std::signbit(a[2]));
}

TEST(Multiply, LosesWhatIsBehindThePointOfIntegers) {
  std::vector<std::int32_t> integers = {-7, 7, 100};
  multiply(integers, 0.5);
  EXPECT_EQ(integers, (std::vector<std::int32_t>{-3, 3, 50}));
  std::vector<float> floats = {-7, 7};
  multiply(floats, 0.5);
  EXPECT_EQ(floats, (std::vector<float>{-3.5, 3.5}));
  std::vector<double> doubles = {1e300};
  multiply(doubles, 1e-300);
  EXPECT_DOUBLE_EQ(doubles[0], 1);
  std::vector<Half> halves = {to_half(3)};
  multiply(halves, 0.5);
  EXPECT_EQ(from_half(halves[0]), 1.5f);
  bool flag = true;
  EXPECT_THROW(multiply(std::span(&flag, 1), 2), Error);
}

}  // namespace
}  // namespace starling
