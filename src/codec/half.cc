// Half and bfloat: every float in two bytes (base/half.h), rounded to nearest, ties to even.
#include <fmt/format.h>

#include <array>
#include <cstring>

#include "codec/codec.h"

namespace starling {

namespace {

struct HalfFormat {
  static constexpr const char* kName = "half";

  static std::uint16_t encode(float value) { return finite_half(value).bits; }
  static float decode(std::uint16_t half) { return from_half(Half{half}); }
};

struct BfloatFormat {
  static constexpr const char* kName = "bfloat";

  static std::uint16_t encode(float value) { return finite_bfloat(value).bits; }
  static float decode(std::uint16_t bfloat) { return from_bfloat(Bfloat{bfloat}); }
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

std::unique_ptr<Codec> make_half() { return std::make_unique<TwoBytes<HalfFormat>>(); }
std::unique_ptr<Codec> make_bfloat() { return std::make_unique<TwoBytes<BfloatFormat>>(); }

}  // namespace starling
