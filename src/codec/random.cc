// Random (J. Wangni et al., 2018): an element is kept with a probability p that grows with its
// magnitude, and is sent as v/p, so that it is right on average. p = min(1, |v|/t), where t is such
// that a share of the elements is kept on average; that keeps the variance least. So what is kept
// below t is sent as plus or minus t.
//
// With feedback, what is kept is sent as it is: amplified it would leave more behind than it took,
// and the residual would grow.
//
// The code is a sparse one (sparse_values.h). As t is a bfloat, plus or minus t are exact; from t
// on, values are rounded to bfloats, to nearest with feedback and by chance without.
#include <fmt/format.h>

#include <cmath>

#include "base/check.h"
#include "base/random.h"
#include "codec/codec.h"
#include "codec/levels.h"
#include "codec/selection.h"
#include "codec/sparse_values.h"

namespace starling {

namespace {

class RandomlySparse : public Codec {
 public:
  RandomlySparse(const CodecSettings& settings, const CodecStream& stream)
      : share_(settings.share), amplifies_(!settings.feedback), random_{stream.seed, 0x72} {}

  void encode(std::span<float> values, std::vector<std::byte>& code) override {
    const float certain = certain_from(values);
    if (largest_magnitude(values) >= kInfinityBits || !std::isfinite(certain)) {
      throw Error("the random codec was given infinity or NaN, or what adds up to it",
                  "the training has diverged; lower the learning rate");
    }
    // More than the most are hardly ever drawn: once in 10^13 times.
    int draws = 0;
    do {
      STARLING_CHECK(++draws <= 10, "ten draws of more than {}", most(values.size()));
      chosen_.draw(values, certain, random_.bits());
    } while (chosen_.count() > most(values.size()));
    code.reserve(largest_code_bytes(values.size()));
    SparseValuesWriter writer(code, values.size(), chosen_.count());
    chosen_.each([&](std::size_t i) {
      const Bfloat sent = amplifies_ ? amplified(values[i], certain) : finite_bfloat(values[i]);
      writer.put(i, sent);
      values[i] -= from_bfloat(sent);
    });
    writer.finish();
  }

  void add_decoded(ConstBytes code, std::span<float> into) const override {
    add_sparse_values(code, most(into.size()), "random", into);
  }

  std::size_t largest_code_bytes(std::size_t elements) const override {
    return sparse_values_bytes(elements, most(elements));
  }

  void visit_state(State state) override { state("random", random_); }

 private:
  double wanted(std::size_t elements) const {
    return std::max(1.0, share_ * static_cast<double>(elements));
  }

  // More than eight standard deviations above what is drawn on average.
  std::size_t most(std::size_t elements) const {
    const double mean = wanted(elements);
    return std::min(elements, static_cast<std::size_t>(mean + 8 * std::sqrt(mean) + 16));
  }

  // The t above. Each round takes those for certain that |v|/t makes so, and shares out the rest; it
  // comes down to the right t from above, and a thousandth too few does not matter.
  float certain_from(std::span<const float> values) const {
    const double count = wanted(values.size());
    const double sum = below(values, std::numeric_limits<float>::infinity()).sum;
    float certain = rounded_up(sum / count);
    while (true) {
      const Below rest = below(values, certain);
      const double left = count - static_cast<double>(rest.others);
      if (left <= 0 || rest.sum == 0) return certain;
      const float next = rounded_up(rest.sum / left);
      if (!(next < certain * 0.999f)) return certain;
      certain = next;
    }
  }

  // To a bfloat.
  static float rounded_up(double value) {
    const auto largest = static_cast<double>(std::numeric_limits<float>::max());
    if (!(value <= largest)) return std::numeric_limits<float>::infinity();
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    return std::bit_cast<float>((bits + 0xffff) >> 16 << 16);
  }

  // Right on average.
  Bfloat amplified(float value, float certain) {
    if (std::abs(value) < certain) return finite_bfloat(std::copysign(certain, value));
    const std::uint32_t bits = magnitude_bits(value);
    const auto chance = static_cast<std::uint32_t>(random_.bits() >> 48);
    const std::uint32_t up = std::min((bits + chance) >> 16, 0x7f7fu);
    return {static_cast<std::uint16_t>(up | (std::signbit(value) ? 0x8000 : 0))};
  }

  double share_;
  bool amplifies_;
  Random random_;
  Selection chosen_;
};

}  // namespace

std::unique_ptr<Codec> make_random(const CodecSettings& settings, const CodecStream& stream) {
  return std::make_unique<RandomlySparse>(settings, stream);
}

}  // namespace starling
