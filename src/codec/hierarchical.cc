// Hierarchical (Y. Du, S. Yang and K. Huang, 2020): a vector is its norm r, times a unit *hinge*
// vector h with one element for every block, times a unit vector u_b for every block:
//
//   v_b = r h_b u_b
//
// The norm is sent as it is, the hinge vector in a byte an element, so that short blocks cost
// little. A unit vector goes as the direction of whole numbers from -s to s, u_b = k_b / |k_b|,
// where k_b is the block in steps of its largest magnitude over s, rounded as in quantized.cc.
//
// With feedback the hinge is the block's projection on that direction, which comes closest, rounded
// to nearest. Without, k_b is drawn, and the hinge is what makes r h_b u_b the drawn k_b in steps;
// it is drawn between its two neighbours, too, so that all is right on average.
//
// The code: r (8 bytes), h (a byte for every block), the k_b (levels.h).
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/random.h"
#include "codec/blocks.h"
#include "codec/codec.h"
#include "codec/levels.h"

namespace starling {

namespace {

// A hinge from 0 to 1 in a byte, as a float with three bits of fraction from 2^-30 on: layers'
// gradients lie orders of magnitude apart.
constexpr std::uint8_t kOne = 31 << 3, kNotFinite = 0xff;
constexpr int kFractionBits = 20;                    // that a float has more
constexpr std::uint32_t kRebias = (127 - 31) << 23;  // between the exponents' biases

double from_hinge(std::uint8_t hinge) {
  if (hinge < 1 << 3) return std::ldexp(hinge, -33);  // no leading one, as below a float's smallest
  return static_cast<double>(
      std::bit_cast<float>((std::uint32_t{hinge} << kFractionBits) + kRebias));
}

// Rounded up with a chance of what `lift` is in the way to the next, from 0 to 1; 0.5 is to nearest.
std::uint8_t to_hinge(double hinge, double lift) {
  if (hinge < 0x1p-30) return static_cast<std::uint8_t>(hinge * 0x1p33 + lift);
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(static_cast<float>(hinge)) - kRebias;
  const auto more = static_cast<std::uint32_t>(lift * (1 << kFractionBits));
  return static_cast<std::uint8_t>(std::min((bits + more) >> kFractionBits, std::uint32_t{kOne}));
}

class Hierarchical : public Codec {
 public:
  Hierarchical(const CodecSettings& settings, const CodecStream& stream)
      : most_(settings.levels),
        levels_(settings.levels),
        blocks_(settings.block),
        drawn_(!settings.feedback),
        random_{stream.seed, 0x68} {}

  void encode(std::span<float> values, std::vector<std::byte>& code) override {
    code.resize(largest_code_bytes(values.size()));
    lengths_.clear();
    lengths_.reserve(blocks_.count(values.size()));
    const std::uint64_t key = random_.bits();
    std::byte* to = code.data() + units_at(values.size());
    double squares = 0;
    blocks_.each(values.size(), [&](std::size_t begin, std::size_t count) {
      const Bytes levels(to, levels_.bytes(count));
      to += levels.size();
      const double length = write_unit(values.subspan(begin, count),
                                       {drawn_, key, static_cast<std::uint32_t>(begin)}, levels);
      lengths_.push_back(length);
      if (std::isfinite(length)) squares += length * length;
    });
    const double norm = std::sqrt(squares);
    std::memcpy(code.data(), &norm, sizeof norm);
    for (std::size_t i = 0; i < lengths_.size(); ++i) {
      code[sizeof norm + i] = std::byte{hinge_of(lengths_[i], norm)};
    }
    decode(code, values, -1);
  }

  void add_decoded(ConstBytes code, std::span<float> into) const override {
    if (code.size() != largest_code_bytes(into.size())) {
      throw BadCode(fmt::format("{} bytes are no hierarchical code for {} elements", code.size(),
                                into.size()));
    }
    decode(code, into, 1);
  }

  std::size_t largest_code_bytes(std::size_t elements) const override {
    return units_at(elements) +
           blocks_.bytes(elements, [&](std::size_t count) { return levels_.bytes(count); });
  }

  void visit_state(State state) override { state("random", random_); }

 private:
  std::size_t units_at(std::size_t elements) const {
    return sizeof(double) + blocks_.count(elements);
  }

  // Returns how long the block is in the direction that is written; NaN if it is not finite.
  double write_unit(std::span<const float> block, const Rounding& rounding, Bytes levels) const {
    const std::uint32_t largest = largest_magnitude(block);
    const float step =
        largest < kInfinityBits ? std::bit_cast<float>(largest) / static_cast<float>(most_) : 0;
    levels_.write(block, step, rounding, levels);
    if (largest >= kInfinityBits) return std::nan("");
    if (step == 0) return 0;
    const auto [squares, products] = levels_.sums(levels, block, step);
    if (squares == 0) return 0;
    const double length = std::sqrt(static_cast<double>(squares));
    return static_cast<double>(step) * (drawn_ ? length : products / length);
  }

  std::uint8_t hinge_of(double length, double norm) {
    if (std::isnan(length)) return kNotFinite;
    if (norm == 0) return 0;
    return to_hinge(length / norm, drawn_ ? random_.uniform() : 0.5);
  }

  // into += sign * what the code says; where that is not finite and is taken away, nothing is left.
  void decode(ConstBytes code, std::span<float> into, double sign) const {
    double norm;
    std::memcpy(&norm, code.data(), sizeof norm);
    if (!(norm >= 0 && std::isfinite(norm))) {
      throw BadCode(fmt::format("a hierarchical code has the norm {}", norm));
    }
    const std::byte* hinge = code.data() + sizeof norm;
    const std::byte* from = code.data() + units_at(into.size());
    blocks_.each(into.size(), [&](std::size_t begin, std::size_t count) {
      const auto block = into.subspan(begin, count);
      const ConstBytes levels(from, levels_.bytes(count));
      from += levels.size();
      const auto this_hinge = std::to_integer<std::uint8_t>(*hinge++);
      if (this_hinge == kNotFinite) {
        std::ranges::fill(block, sign < 0 ? 0.0f : std::nanf(""));
        return;
      }
      if (this_hinge > kOne) throw BadCode("a hierarchical code has a hinge above one");
      const auto squares = static_cast<double>(levels_.squares(levels, count));
      const double step = squares > 0 ? norm * from_hinge(this_hinge) / std::sqrt(squares) : 0;
      // A hinge that was rounded up must not make a float infinite.
      const double largest = 0.99 * static_cast<double>(std::numeric_limits<float>::max()) / most_;
      if (!levels_.add(levels, static_cast<float>(sign * std::min(step, largest)), block)) {
        throw BadCode(fmt::format("a hierarchical code has levels above {}", most_));
      }
    });
  }

  int most_;
  Levels levels_;
  Blocks blocks_;
  bool drawn_;
  Random random_;
  std::vector<double> lengths_;  // of all blocks
};

}  // namespace

std::unique_ptr<Codec> make_hierarchical(const CodecSettings& settings, const CodecStream& stream) {
  return std::make_unique<Hierarchical>(settings, stream);
}

}  // namespace starling
