#include "codec/selection.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/half.h"

// Highway compiles this file once for every instruction set it knows and picks one when the program
// runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/selection.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "codec/bits-inl.h"
#include "codec/draw-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kWord = 64;
using Lanes = hn::CappedTag<float, kWord>;

// A bit for every element for which is_meant(its vector, the place of that vector) is true.
template <class IsMeant>
HWY_INLINE void mark(const float* values, std::size_t count, std::uint64_t* words,
                     const IsMeant& is_meant) {
  const Lanes floats;
  const std::size_t lanes = hn::Lanes(floats);
  const auto word_of = [&](const float* from, std::size_t place) HWY_ATTR {
    std::uint64_t word = 0;
    for (std::size_t i = 0; i < kWord; i += lanes) {
      word |= bits_of(floats, is_meant(hn::LoadU(floats, from + i), place + i)) << i;
    }
    return word;
  };
  std::size_t i = 0;
  for (; i + kWord <= count; i += kWord) *words++ = word_of(values + i, i);
  if (i == count) return;
  float last[kWord] = {};
  std::memcpy(last, values + i, (count - i) * sizeof(float));
  *words = word_of(last, i) & ((std::uint64_t{1} << (count - i)) - 1);
}

void MarkAtLeast(const float* values, std::size_t count, std::uint32_t magnitude,
                 std::uint64_t* words) {
  const hn::RebindToSigned<Lanes> integers;
  const auto least = hn::Set(integers, static_cast<std::int32_t>(magnitude) - 1);
  mark(values, count, words, [&](auto value, std::size_t) HWY_ATTR {
    const auto bits = hn::And(hn::BitCast(integers, value), hn::Set(integers, 0x7fffffff));
    return hn::RebindMask(Lanes(), hn::Gt(bits, least));
  });
}

void MarkDrawn(const float* values, std::size_t count, float certain, std::uint64_t key,
               std::uint64_t* words) {
  const auto bound = hn::Set(Lanes(), certain);
  mark(values, count, words, [&](auto value, std::size_t place) HWY_ATTR {
    const auto chance = drawn(Lanes(), key, static_cast<std::uint32_t>(place));
    return hn::Lt(hn::Mul(bound, chance), hn::Abs(value));
  });
}

Below SumBelow(const float* values, std::size_t count, float bound) {
  const Lanes floats;
  const std::size_t lanes = hn::Lanes(floats);
  constexpr std::size_t kStretch = 4096;  // floats are exact enough for the sum over one
  const auto bounds = hn::Set(floats, bound);
  Below all;
  std::size_t i = 0, counted = 0;
  while (i + lanes <= count) {
    auto sum = hn::Zero(floats);
    for (const std::size_t end = std::min(count, i + kStretch); i + lanes <= end; i += lanes) {
      const auto magnitude = hn::Abs(hn::LoadU(floats, values + i));
      const auto is_below = hn::Lt(magnitude, bounds);
      counted += hn::CountTrue(floats, is_below);
      sum = hn::Add(sum, hn::IfThenElseZero(is_below, magnitude));
    }
    all.sum += static_cast<double>(hn::GetLane(hn::SumOfLanes(floats, sum)));
  }
  for (; i < count; ++i) {
    const float magnitude = std::abs(values[i]);
    if (!(magnitude < bound)) continue;
    ++counted;
    all.sum += static_cast<double>(magnitude);
  }
  all.others = count - counted;
  return all;
}

}  // namespace HWY_NAMESPACE
}  // namespace starling
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling {

HWY_EXPORT(MarkAtLeast);
HWY_EXPORT(MarkDrawn);
HWY_EXPORT(SumBelow);

void Selection::take_at_least(std::span<const float> values, std::uint32_t magnitude) {
  words_.resize((values.size() + 63) / 64);
  HWY_DYNAMIC_DISPATCH(MarkAtLeast)(values.data(), values.size(), magnitude, words_.data());
}

void Selection::draw(std::span<const float> values, float certain, std::uint64_t key) {
  words_.resize((values.size() + 63) / 64);
  HWY_DYNAMIC_DISPATCH(MarkDrawn)(values.data(), values.size(), certain, key, words_.data());
}

std::size_t Selection::count() const {
  std::size_t count = 0;
  for (const std::uint64_t word : words_) count += static_cast<std::size_t>(std::popcount(word));
  return count;
}

Below below(std::span<const float> values, float bound) {
  return HWY_DYNAMIC_DISPATCH(SumBelow)(values.data(), values.size(), bound);
}

}  // namespace starling
#endif  // HWY_ONCE
