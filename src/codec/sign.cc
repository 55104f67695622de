// Sign (1-bit SGD, F. Seide et al., 2014; signSGD with norm, S. P. Karimireddy et al., 2019): one
// bit an element, which means plus or minus the mean of its block's magnitudes. Of all numbers that
// one comes closest, so that with feedback it contracts. Without feedback it is not right on
// average: what is small counts as much as what is large.
//
// The code: for every block its mean as a bfloat (2 bytes), then the signs (levels.h).
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "codec/blocks.h"
#include "codec/codec.h"
#include "codec/levels.h"

namespace starling {

namespace {

class Sign : public Codec {
 public:
  explicit Sign(const CodecSettings& settings) : blocks_(settings.block) {}

  void encode(std::span<float> values, std::vector<std::byte>& code) override {
    code.resize(largest_code_bytes(values.size()));
    std::byte* to = code.data();
    blocks_.each(values.size(), [&](std::size_t begin, std::size_t count) {
      const auto block = values.subspan(begin, count);
      const float mean = mean_magnitude(block);
      const bool finite = std::isfinite(mean);
      const Bfloat sent = finite ? finite_bfloat(mean) : Bfloat{0x7fc0};
      std::memcpy(to, &sent.bits, 2);
      const Bytes signs(to + 2, signs_.bytes(count));
      signs_.write(block, 1, {}, signs);
      to += 2 + signs.size();
      if (finite) {
        signs_.add(signs, -from_bfloat(sent), block);
      } else {
        std::ranges::fill(block, 0.0f);
      }
    });
  }

  void add_decoded(ConstBytes code, std::span<float> into) const override {
    if (code.size() != largest_code_bytes(into.size())) {
      throw BadCode(
          fmt::format("{} bytes are no sign code for {} elements", code.size(), into.size()));
    }
    const std::byte* from = code.data();
    blocks_.each(into.size(), [&](std::size_t begin, std::size_t count) {
      Bfloat mean;
      std::memcpy(&mean.bits, from, 2);
      const ConstBytes signs(from + 2, signs_.bytes(count));
      from += 2 + signs.size();
      if (!signs_.add(signs, from_bfloat(mean), into.subspan(begin, count))) {
        throw BadCode("a sign code has signs behind its last element");
      }
    });
  }

  std::size_t largest_code_bytes(std::size_t elements) const override {
    return blocks_.bytes(elements, [&](std::size_t count) { return 2 + signs_.bytes(count); });
  }

 private:
  Blocks blocks_;
  Levels signs_{0};
};

}  // namespace

std::unique_ptr<Codec> make_sign(const CodecSettings& settings) {
  return std::make_unique<Sign>(settings);
}

}  // namespace starling
