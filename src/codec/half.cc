// Half and bfloat: every float in two bytes, rounded to nearest, ties to even.
//
// Half (IEEE binary16) has eleven bits of precision from 2^-14 to 65504, bfloat has eight in all of
// float's range. Neither rounds to infinity: what is larger than its largest number is sent as that
// number, and the rest remains. The conversions have no branches, so that a compiler can make
// vector code of them on any machine.
#include <fmt/format.h>

#include <array>
#include <cstring>

#include "codec/codec.h"

namespace starling {

namespace {

struct Half {
  static constexpr const char* kName = "half";

  static std::uint16_t encode(float value) {
    const std::uint32_t sign = std::bit_cast<std::uint32_t>(value) >> 16 & 0x8000;
    const std::uint32_t magnitude = magnitude_bits(value);
    const std::uint32_t normal = (magnitude + 0xfff + (magnitude >> 13 & 1) - kRebias) >> 13;
    // Below 2^-14 the halves lie 2^-24 apart, as the floats from 0.5 to 1 are 2^-24 apart: the sum
    // is rounded by the hardware.
    const std::uint32_t subnormal =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) -
        std::bit_cast<std::uint32_t>(0.5f);
    const std::uint32_t finite =
        if_less(magnitude, kSmallestNormal, subnormal, if_less(normal, 0x7c00, normal, 0x7bff));
    const std::uint32_t special = if_less(kInfinityBits, magnitude, 0x7e00, 0x7c00);
    return static_cast<std::uint16_t>(sign | if_less(magnitude, kInfinityBits, finite, special));
  }

  static float decode(std::uint16_t half) {
    const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000) << 16;
    const std::uint32_t shifted = static_cast<std::uint32_t>(half & 0x7fff) << 13;
    const std::uint32_t normal = shifted + kRebias;
    const std::uint32_t subnormal =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(shifted + kSmallestNormal) - 0x1p-14f);
    const std::uint32_t finite = if_less(shifted, kLowestExponent, subnormal, normal);
    const std::uint32_t magnitude = if_less(shifted, kSpecial, finite, normal + kRebias);
    return std::bit_cast<float>(sign | magnitude);
  }

 private:
  static constexpr std::uint32_t kRebias = (127 - 15) << 23;  // between the exponents' biases
  static constexpr std::uint32_t kSmallestNormal = (127 - 14) << 23;  // 2^-14 as a float
  static constexpr std::uint32_t kLowestExponent = 1 << 23;  // a half's, at a float's exponent
  static constexpr std::uint32_t kSpecial = 31 << 23;        // there, of infinity and NaN
};

struct Bfloat {
  static constexpr const char* kName = "bfloat";

  static std::uint16_t encode(float value) { return to_bfloat(value); }
  static float decode(std::uint16_t bfloat) { return from_bfloat(bfloat); }
};

template <class Format>
class TwoBytes : public Codec {
 public:
  void encode(std::span<float> values, std::vector<std::byte>& code) override {
    code.resize(largest_code_bytes(values.size()));
    in_blocks(values, [&](std::size_t begin, float* block, auto count) {
      std::array<std::uint16_t, kBlock> words;
      for (std::size_t i = 0; i < count; ++i) {
        words[i] = Format::encode(block[i]);
        block[i] = residual(block[i], Format::decode(words[i]));
      }
      std::memcpy(code.data() + 2 * begin, words.data(), 2 * count);
    });
  }

  void add_decoded(ConstBytes code, std::span<float> into) const override {
    if (code.size() != largest_code_bytes(into.size())) {
      throw BadCode(fmt::format("{} bytes are no {} code for {} elements", code.size(),
                                Format::kName, into.size()));
    }
    in_blocks(into, [&](std::size_t begin, float* block, auto count) {
      std::array<std::uint16_t, kBlock> words;
      std::memcpy(words.data(), code.data() + 2 * begin, 2 * count);
      for (std::size_t i = 0; i < count; ++i) block[i] += Format::decode(words[i]);
    });
  }

  std::size_t largest_code_bytes(std::size_t elements) const override { return 2 * elements; }

 private:
  static constexpr std::size_t kBlock = 64;

  // Most blocks have a count that is known when this is compiled, and words of their own that
  // nothing else points to; that is what makes the loops vector code already at -O2.
  template <class Convert>
  static void in_blocks(std::span<float> values, const Convert& convert) {
    std::size_t begin = 0;
    for (; begin + kBlock <= values.size(); begin += kBlock) {
      convert(begin, values.data() + begin, std::integral_constant<std::size_t, kBlock>());
    }
    if (begin < values.size()) convert(begin, values.data() + begin, values.size() - begin);
  }
};

}  // namespace

std::unique_ptr<Codec> make_half() { return std::make_unique<TwoBytes<Half>>(); }
std::unique_ptr<Codec> make_bfloat() { return std::make_unique<TwoBytes<Bfloat>>(); }

}  // namespace starling
