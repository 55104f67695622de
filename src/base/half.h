// The two 16-bit floating-point formats as bits, without branches, so that a compiler can make vector
// code of them on any machine. Half (IEEE binary16) has eleven bits of precision from 2^-14 to
// 65504; bfloat has eight in all of float's range.
#pragma once

#include <bit>
#include <cstdint>

#include "base/element.h"

namespace starling {

// The bits of |value|. They order as magnitudes do: zero, finite, infinity, NaN.
inline std::uint32_t magnitude_bits(float value) {
  return std::bit_cast<std::uint32_t>(value) & 0x7fffffff;
}
inline constexpr std::uint32_t kInfinityBits = 0x7f800000;

// a < b ? yes : no, for a and b below 2^31, without a branch or an unsigned comparison: of those a
// compiler makes no vector code, or slow code.
inline std::uint32_t if_less(std::uint32_t a, std::uint32_t b, std::uint32_t yes,
                             std::uint32_t no) {
  return no ^ ((yes ^ no) & (0 - ((a - b) >> 31)));
}

inline constexpr std::uint32_t kHalfRebias = (127 - 15) << 23;  // between the exponents' biases
inline constexpr std::uint32_t kHalfSmallestNormal = (127 - 14) << 23;  // 2^-14 as a float

// Rounded to nearest, ties to even; what is too large is infinite.
inline Half to_half(float value) {
  const std::uint32_t sign = std::bit_cast<std::uint32_t>(value) >> 16 & 0x8000;
  const std::uint32_t magnitude = magnitude_bits(value);
  const std::uint32_t normal = (magnitude + 0xfff + (magnitude >> 13 & 1) - kHalfRebias) >> 13;
  // Below 2^-14 the halves lie 2^-24 apart, as the floats from 0.5 to 1 are 2^-24 apart: the sum is
  // rounded by the hardware.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) -
      std::bit_cast<std::uint32_t>(0.5f);
  const std::uint32_t number =
      if_less(magnitude, kHalfSmallestNormal, subnormal, if_less(normal, 0x7c00, normal, 0x7c00));
  return {static_cast<std::uint16_t>(sign | if_less(kInfinityBits, magnitude, 0x7e00, number))};
}

inline float from_half(Half half) {
  constexpr std::uint32_t kLowestExponent = 1 << 23;  // a half's, at a float's exponent
  constexpr std::uint32_t kSpecial = 31 << 23;        // there, of infinity and NaN
  const std::uint32_t sign = static_cast<std::uint32_t>(half.bits & 0x8000) << 16;
  const std::uint32_t shifted = static_cast<std::uint32_t>(half.bits & 0x7fff) << 13;
  const std::uint32_t normal = shifted + kHalfRebias;
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(shifted + kHalfSmallestNormal) - 0x1p-14f);
  const std::uint32_t finite = if_less(shifted, kLowestExponent, subnormal, normal);
  const std::uint32_t magnitude = if_less(shifted, kSpecial, finite, normal + kHalfRebias);
  return std::bit_cast<float>(sign | magnitude);
}

// Rounded likewise.
inline Bfloat to_bfloat(float value) {
  const std::uint32_t sign = std::bit_cast<std::uint32_t>(value) >> 16 & 0x8000;
  const std::uint32_t magnitude = magnitude_bits(value);
  const std::uint32_t rounded = (magnitude + 0x7fff + (magnitude >> 16 & 1)) >> 16;
  return {static_cast<std::uint16_t>(sign | if_less(kInfinityBits, magnitude, 0x7fc0, rounded))};
}

inline float from_bfloat(Bfloat bfloat) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bfloat.bits) << 16);
}

}  // namespace starling
