// Masks as bits in a word and back, for files that Highway compiles several times; see draw-inl.h. A
// vector may have but one element, so that what one makes may be less than a byte.
#if defined(STARLING_CODEC_BITS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_CODEC_BITS_INL_H_
#undef STARLING_CODEC_BITS_INL_H_
#else
#define STARLING_CODEC_BITS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace starling {
namespace HWY_NAMESPACE {

template <class Tag, class Mask>
HWY_INLINE std::uint64_t bits_of(Tag tag, Mask mask) {
  std::uint64_t bits = 0;
  hwy::HWY_NAMESPACE::StoreMaskBits(tag, mask, reinterpret_cast<std::uint8_t*>(&bits));
  return bits;
}

template <class Tag>
HWY_INLINE auto mask_of(Tag tag, std::uint64_t bits) {
  return hwy::HWY_NAMESPACE::LoadMaskBits(tag, reinterpret_cast<const std::uint8_t*>(&bits));
}

}  // namespace HWY_NAMESPACE
}  // namespace starling
HWY_AFTER_NAMESPACE();

#endif
