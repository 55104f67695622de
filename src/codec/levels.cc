#include "codec/levels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/half.h"

// Highway compiles this file once for every instruction set it knows and picks one when the program
// runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/levels.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "codec/bits-inl.h"
#include "codec/draw-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kGroup = 64;
using Floats = hn::CappedTag<float, kGroup>;
using Integers = hn::RebindToSigned<Floats>;
using Words = hn::RebindToUnsigned<Floats>;
using Narrow = hn::Rebind<std::uint8_t, Floats>;  // as many bytes
using Octets = hn::CappedTag<std::uint8_t, kGroup>;

// A group in between, a byte an element: the sign above seven bits of magnitude.
constexpr unsigned kSign = 0x80;

HWY_INLINE auto bit_of_plane(unsigned plane, unsigned magnitude_bits) {
  return hn::Set(Octets(), static_cast<std::uint8_t>(plane < magnitude_bits ? 1u << plane : kSign));
}

HWY_INLINE void write_planes(const std::uint8_t* group, unsigned magnitude_bits,
                             std::uint8_t* planes) {
  const Octets octets;
  const std::size_t lanes = hn::Lanes(octets);
  for (unsigned plane = 0; plane <= magnitude_bits; ++plane, planes += kGroup / 8) {
    const auto bit = bit_of_plane(plane, magnitude_bits);
    std::uint64_t word = 0;
    for (std::size_t i = 0; i < kGroup; i += lanes) {
      word |= bits_of(octets, hn::TestBit(hn::Load(octets, group + i), bit)) << i;
    }
    std::memcpy(planes, &word, sizeof word);
  }
}

HWY_INLINE void read_planes(const std::uint8_t* planes, unsigned magnitude_bits,
                            std::uint8_t* group) {
  const Octets octets;
  const std::size_t lanes = hn::Lanes(octets);
  for (std::size_t i = 0; i < kGroup; i += lanes) {
    auto elements = hn::Set(octets, static_cast<std::uint8_t>(magnitude_bits == 0 ? 1 : 0));
    for (unsigned plane = 0; plane <= magnitude_bits; ++plane) {
      std::uint64_t word;
      std::memcpy(&word, planes + plane * kGroup / 8, sizeof word);
      elements = hn::Or(elements, hn::IfThenElseZero(mask_of(octets, word >> i),
                                                     bit_of_plane(plane, magnitude_bits)));
    }
    hn::Store(elements, octets, group + i);
  }
}

// Magnitude and sign of as many elements as a vector has, in bytes. A zero has no sign.
template <class V>
HWY_INLINE void store_levels(V magnitudes, V values, std::uint8_t* to) {
  const Integers integers;
  const auto levels = hn::ConvertTo(integers, magnitudes);
  const auto signs =
      hn::ShiftLeft<7>(hn::BitCast(integers, hn::ShiftRight<31>(hn::BitCast(Words(), values))));
  const auto both = hn::IfThenElseZero(hn::Gt(levels, hn::Zero(integers)), hn::Or(levels, signs));
  hn::StoreU(hn::DemoteTo(Narrow(), both), Narrow(), to);
}

HWY_INLINE void level_group(const float* values, float step, float most, const Rounding& rounding,
                            std::uint32_t place, std::uint8_t* group) {
  const Floats floats;
  const std::size_t lanes = hn::Lanes(floats);
  const auto steps = hn::Set(floats, step);
  const auto largest = hn::Set(floats, most);
  for (std::size_t i = 0; i < kGroup; i += lanes) {
    const auto value = hn::LoadU(floats, values + i);
    const auto exact = hn::Div(hn::Abs(value), steps);
    const auto level = rounding.drawn
                           ? hn::Floor(hn::Add(exact, drawn(floats, rounding.key,
                                                            place + static_cast<std::uint32_t>(i))))
                           : hn::Round(exact);
    store_levels(hn::Min(level, largest), value, group + i);
  }
}

HWY_INLINE void sign_group(const float* values, std::uint8_t* group) {
  const Floats floats;
  const std::size_t lanes = hn::Lanes(floats);
  for (std::size_t i = 0; i < kGroup; i += lanes) {
    store_levels(hn::Set(floats, 1.0f), hn::LoadU(floats, values + i), group + i);
  }
}

void WriteLevels(const float* values, std::size_t count, float step, unsigned most,
                 unsigned magnitude_bits, const Rounding& rounding, std::uint8_t* code) {
  HWY_ALIGN std::uint8_t group[kGroup];
  const auto level = [&](const float* from, std::size_t place) HWY_ATTR {
    if (magnitude_bits == 0) {
      sign_group(from, group);
    } else {
      level_group(from, step, static_cast<float>(most), rounding,
                  rounding.first + static_cast<std::uint32_t>(place), group);
    }
  };
  std::size_t i = 0;
  for (; i + kGroup <= count; i += kGroup, code += (magnitude_bits + 1) * kGroup / 8) {
    level(values + i, i);
    write_planes(group, magnitude_bits, code);
  }
  if (i == count) return;
  const std::size_t rest = count - i, bytes = (rest + 7) / 8;
  HWY_ALIGN float last[kGroup] = {};
  std::uint8_t planes[8 * kGroup / 8];
  std::memcpy(last, values + i, rest * sizeof(float));
  level(last, i);
  std::fill(group + rest, group + kGroup, std::uint8_t{0});
  write_planes(group, magnitude_bits, planes);
  for (unsigned plane = 0; plane <= magnitude_bits; ++plane) {
    std::memcpy(code + plane * bytes, planes + plane * kGroup / 8, bytes);
  }
}

// Calls visit(group, i, count) for every group of bytes, which begins with element i.
template <class Visit>
HWY_INLINE void each_group(const std::uint8_t* code, std::size_t count, unsigned magnitude_bits,
                           const Visit& visit) {
  HWY_ALIGN std::uint8_t group[kGroup];
  std::size_t i = 0;
  for (; i + kGroup <= count; i += kGroup, code += (magnitude_bits + 1) * kGroup / 8) {
    read_planes(code, magnitude_bits, group);
    visit(group, i, kGroup);
  }
  if (i == count) return;
  const std::size_t rest = count - i, bytes = (rest + 7) / 8;
  std::uint8_t planes[8 * kGroup / 8] = {};
  for (unsigned plane = 0; plane <= magnitude_bits; ++plane) {
    std::memcpy(planes + plane * kGroup / 8, code + plane * bytes, bytes);
  }
  read_planes(planes, magnitude_bits, group);
  visit(group, i, rest);
}

// The levels of as many elements as a vector has, as floats.
HWY_INLINE auto load_levels(const std::uint8_t* from) {
  const Integers integers;
  const auto both = hn::PromoteTo(integers, hn::LoadU(Narrow(), from));
  const auto magnitudes =
      hn::ConvertTo(Floats(), hn::And(both, hn::Set(integers, static_cast<int>(kSign - 1))));
  const auto signs = hn::ShiftLeft<24>(hn::And(both, hn::Set(integers, static_cast<int>(kSign))));
  return hn::Xor(magnitudes, hn::BitCast(Floats(), signs));
}

bool AddLevels(const std::uint8_t* code, std::size_t count, float step, unsigned most,
               unsigned magnitude_bits, float* into) {
  const Floats floats;
  const Octets octets;
  const std::size_t lanes = hn::Lanes(floats);
  const auto steps = hn::Set(floats, step);
  auto largest = hn::Zero(octets);
  bool ends = true;
  each_group(code, count, magnitude_bits,
             [&](const std::uint8_t* group, std::size_t begin, std::size_t size) HWY_ATTR {
               for (std::size_t i = 0; i < kGroup; i += hn::Lanes(octets)) {
                 largest = hn::Max(largest, hn::And(hn::Load(octets, group + i),
                                                    hn::Set(octets, std::uint8_t{kSign - 1})));
               }
               float* const to = into + begin;
               if (size == kGroup) {
                 for (std::size_t i = 0; i < kGroup; i += lanes) {
                   const auto sent = hn::Mul(load_levels(group + i), steps);
                   hn::StoreU(hn::Add(hn::LoadU(floats, to + i), sent), floats, to + i);
                 }
                 return;
               }
               HWY_ALIGN float sent[kGroup];
               for (std::size_t i = 0; i < kGroup; i += lanes) {
                 hn::Store(hn::Mul(load_levels(group + i), steps), floats, sent + i);
               }
               for (std::size_t i = 0; i < size; ++i) to[i] += sent[i];
               const unsigned behind = magnitude_bits == 0 ? kSign : 0xff;
               for (std::size_t i = size; i < kGroup; ++i) ends &= (group[i] & behind) == 0;
             });
  const auto allowed = hn::Set(octets, static_cast<std::uint8_t>(std::max(most, 1u)));
  return ends && hn::AllFalse(octets, hn::Gt(largest, allowed));
}

void SumLevels(const std::uint8_t* code, std::size_t count, unsigned magnitude_bits,
               const float* values, float step, Levels::Sums& sums) {
  const Floats floats;
  const auto steps = hn::Set(floats, step);
  const std::size_t lanes = hn::Lanes(floats);
  each_group(code, count, magnitude_bits,
             [&](const std::uint8_t* group, std::size_t begin, std::size_t size) HWY_ATTR {
               auto squares = hn::Zero(floats), products = hn::Zero(floats);
               HWY_ALIGN float last[kGroup] = {};
               const float* from = values == nullptr ? last : values + begin;
               if (size < kGroup && values != nullptr) {
                 std::memcpy(last, from, size * sizeof(float));
                 from = last;
               }
               for (std::size_t i = 0; i < kGroup; i += lanes) {
                 const auto level = load_levels(group + i);
                 squares = hn::Add(squares, hn::Mul(level, level));  // whole, and below 2^24
                 const auto exact = hn::Div(hn::LoadU(floats, from + i), steps);
                 products = hn::Add(products, hn::Mul(level, exact));
               }
               sums.squares +=
                   static_cast<std::uint64_t>(hn::GetLane(hn::SumOfLanes(floats, squares)));
               sums.products += static_cast<double>(hn::GetLane(hn::SumOfLanes(floats, products)));
             });
}

std::uint32_t LargestMagnitude(const float* values, std::size_t count) {
  const Floats floats;
  const Integers integers;
  const std::size_t lanes = hn::Lanes(floats);
  const auto magnitude = hn::Set(integers, 0x7fffffff);
  auto largest = hn::Zero(integers);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    largest =
        hn::Max(largest, hn::And(hn::BitCast(integers, hn::LoadU(floats, values + i)), magnitude));
  }
  auto all = static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(integers, largest)));
  for (; i < count; ++i) all = std::max(all, magnitude_bits(values[i]));
  return all;
}

double SumMagnitudes(const float* values, std::size_t count, float factor) {
  const Floats floats;
  const std::size_t lanes = hn::Lanes(floats);
  constexpr std::size_t kStretch = 4096;  // floats are exact enough for the sum over one
  const auto factors = hn::Set(floats, factor);
  double total = 0;
  std::size_t i = 0;
  while (i + lanes <= count) {
    auto sum = hn::Zero(floats);
    for (const std::size_t end = std::min(count, i + kStretch); i + lanes <= end; i += lanes) {
      sum = hn::Add(sum, hn::Mul(hn::Abs(hn::LoadU(floats, values + i)), factors));
    }
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(floats, sum)));
  }
  for (; i < count; ++i) total += static_cast<double>(std::abs(values[i]) * factor);
  return total;
}

}  // namespace HWY_NAMESPACE
}  // namespace starling
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling {

HWY_EXPORT(WriteLevels);
HWY_EXPORT(AddLevels);
HWY_EXPORT(SumLevels);
HWY_EXPORT(LargestMagnitude);
HWY_EXPORT(SumMagnitudes);

namespace {

const std::uint8_t* octets(ConstBytes code) {
  return reinterpret_cast<const std::uint8_t*>(code.data());
}

}  // namespace

Levels::Levels(int most)
    : most_(static_cast<unsigned>(most)),
      magnitude_bits_(static_cast<unsigned>(std::bit_width(most_))) {}

std::size_t Levels::bytes(std::size_t elements) const {
  return (magnitude_bits_ + 1) * ((elements + 7) / 8);
}

void Levels::write(std::span<const float> values, float step, const Rounding& rounding,
                   Bytes code) const {
  STARLING_CHECK(code.size() == bytes(values.size()), "{} bytes", code.size());
  if (step == 0 && most_ > 0) {
    std::ranges::fill(code, std::byte{0});
    return;
  }
  HWY_DYNAMIC_DISPATCH(WriteLevels)
  (values.data(), values.size(), step, most_, magnitude_bits_, rounding,
   reinterpret_cast<std::uint8_t*>(code.data()));
}

bool Levels::add(ConstBytes code, float step, std::span<float> into) const {
  STARLING_CHECK(code.size() == bytes(into.size()), "{} bytes", code.size());
  return HWY_DYNAMIC_DISPATCH(AddLevels)(octets(code), into.size(), step, most_, magnitude_bits_,
                                         into.data());
}

Levels::Sums Levels::sums(ConstBytes code, std::span<const float> values, float step) const {
  STARLING_CHECK(code.size() == bytes(values.size()), "{} bytes", code.size());
  Sums sums{0, 0};
  HWY_DYNAMIC_DISPATCH(SumLevels)
  (octets(code), values.size(), magnitude_bits_, values.data(), step, sums);
  return sums;
}

std::uint64_t Levels::squares(ConstBytes code, std::size_t elements) const {
  STARLING_CHECK(code.size() == bytes(elements), "{} bytes", code.size());
  Sums sums{0, 0};
  HWY_DYNAMIC_DISPATCH(SumLevels)(octets(code), elements, magnitude_bits_, nullptr, 1, sums);
  return sums.squares;
}

std::uint32_t largest_magnitude(std::span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(LargestMagnitude)(values.data(), values.size());
}

float mean_magnitude(std::span<const float> values) {
  if (values.empty()) return 0;
  // By halves, so that no rounding makes it too large for a float.
  const float factor = 0.5f / static_cast<float>(values.size());
  const double half = HWY_DYNAMIC_DISPATCH(SumMagnitudes)(values.data(), values.size(), factor);
  constexpr double kLargest = std::numeric_limits<float>::max();
  return static_cast<float>(std::isfinite(half) ? std::min(2 * half, kLargest) : half);
}

}  // namespace starling
#endif  // HWY_ONCE
