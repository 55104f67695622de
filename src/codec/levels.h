// Levels: elements as whole numbers of steps, a sign and a few bits each; vectorized by Highway.
//
// They stand as bit planes, for groups of 64 elements: the lowest bits of all 64, then the next
// lowest, ..., then their signs. So any number of bits takes that many instructions and wastes
// none, and the planes of what is hardly ever set are mostly zeros, which zstd sees. In a last
// group of fewer elements the planes are whole bytes.
//
// All machines write the same levels for the same values, and read them to the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"

namespace starling {

// How a vector's elements become levels. With a key they are drawn, rounded up or down so that they
// are right on average: element i, counted from `first`, by the i-th number that comes of the key.
struct Rounding {
  bool drawn = false;
  std::uint64_t key = 0;
  std::uint32_t first = 0;
};

// From -most to most; of a `most` of 0 the signs alone, which mean -1 and 1.
class Levels {
 public:
  explicit Levels(int most);

  std::size_t bytes(std::size_t elements) const;

  // values[i] / step, rounded and at most `most`. The step is above zero, or all values are zero;
  // signs do not need it.
  void write(std::span<const float> values, float step, const Rounding& rounding, Bytes code) const;

  // into[i] += step * level i. False if the code has levels above `most` or goes on behind its end;
  // then some may have been added.
  bool add(ConstBytes code, float step, std::span<float> into) const;

  // Of what was written for these values: the levels' squares, and their products with the values
  // in steps.
  struct Sums {
    std::uint64_t squares;
    double products;
  };
  Sums sums(ConstBytes code, std::span<const float> values, float step) const;
  std::uint64_t squares(ConstBytes code, std::size_t elements) const;

 private:
  unsigned most_;
  unsigned magnitude_bits_;
};

// The largest of the values' magnitudes as bits (base/half.h): not below kInfinityBits if there is
// an infinity or NaN.
std::uint32_t largest_magnitude(std::span<const float> values);

// Finite if all values are, however large.
float mean_magnitude(std::span<const float> values);

}  // namespace starling
