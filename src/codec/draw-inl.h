// Random numbers in vectors, for files that Highway compiles several times; so there is no
// `pragma once` but what Highway has in its place.
//
// A number is a hash of its place and of the key, not of the one before it: so they are the same
// whatever the machine's vectors hold.
#if defined(STARLING_CODEC_DRAW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_CODEC_DRAW_INL_H_
#undef STARLING_CODEC_DRAW_INL_H_
#else
#define STARLING_CODEC_DRAW_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace starling {
namespace HWY_NAMESPACE {

// Uniform in [0, 1), with 24 random bits, for places first, first + 1, ... The hash is C.
// Wellons's lowbias32, with half of the key before and half between its two rounds.
template <class Floats>
HWY_INLINE auto drawn(Floats floats, std::uint64_t key, std::uint32_t first) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToUnsigned<Floats> words;
  auto x = hn::Mul(hn::Iota(words, first), hn::Set(words, 0x9e3779b9u));
  x = hn::Add(x, hn::Set(words, static_cast<std::uint32_t>(key)));
  x = hn::Xor(x, hn::ShiftRight<16>(x));
  x = hn::Mul(x, hn::Set(words, 0x7feb352du));
  x = hn::Xor(x, hn::Set(words, static_cast<std::uint32_t>(key >> 32)));
  x = hn::Xor(x, hn::ShiftRight<15>(x));
  x = hn::Mul(x, hn::Set(words, 0x846ca68bu));
  x = hn::Xor(x, hn::ShiftRight<16>(x));
  const hn::RebindToSigned<Floats> integers;
  return hn::Mul(hn::ConvertTo(floats, hn::BitCast(integers, hn::ShiftRight<8>(x))),
                 hn::Set(floats, 0x1p-24f));
}

}  // namespace HWY_NAMESPACE
}  // namespace starling
HWY_AFTER_NAMESPACE();

#endif
