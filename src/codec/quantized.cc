// Quantized (QSGD; D. Alistarh et al., 2017): a block of elements has a step, and each of them goes
// as a whole number of steps from -s to s. Drawn, it is rounded up or down by chance so that it is
// right on average; with feedback it is rounded to nearest, which contracts.
//
// The step is the block's largest magnitude over s, as in the paper's experiments, and not its
// euclidean norm over s, as in its proofs: the bounds hold all the more, all levels are used, and
// every block sends at least its largest element, without which it would not contract. It is rounded
// up to a bfloat, so that no element needs more than s steps, and any level times the step is a float
// exactly.
//
// The code: for every block its step (2 bytes) and its levels (levels.h).
#include <fmt/format.h>

#include <cstring>
#include <limits>

#include "base/random.h"
#include "codec/blocks.h"
#include "codec/codec.h"
#include "codec/levels.h"

namespace starling {

namespace {

class Quantized : public Codec {
 public:
  Quantized(const CodecSettings& settings, const CodecStream& stream)
      : most_(settings.levels),
        levels_(settings.levels),
        blocks_(settings.block),
        drawn_(!settings.feedback),
        random_{stream.seed, 0x71} {}

  void encode(std::span<float> values, std::vector<std::byte>& code) override {
    code.resize(largest_code_bytes(values.size()));
    const std::uint64_t key = random_.bits();
    std::byte* to = code.data();
    blocks_.each(values.size(), [&](std::size_t begin, std::size_t count) {
      const auto block = values.subspan(begin, count);
      const Bytes levels(to + 2, levels_.bytes(count));
      const Bfloat step = step_of(largest_magnitude(block));
      std::memcpy(to, &step.bits, 2);
      to += 2 + levels.size();
      if (is_nan(step)) {
        std::ranges::fill(levels, std::byte{0});
        std::ranges::fill(block, 0.0f);
        return;
      }
      levels_.write(block, from_bfloat(step), {drawn_, key, static_cast<std::uint32_t>(begin)},
                    levels);
      levels_.add(levels, -from_bfloat(step), block);
    });
  }

  void add_decoded(ConstBytes code, std::span<float> into) const override {
    if (code.size() != largest_code_bytes(into.size())) {
      throw BadCode(
          fmt::format("{} bytes are no quantized code for {} elements", code.size(), into.size()));
    }
    const std::byte* from = code.data();
    blocks_.each(into.size(), [&](std::size_t begin, std::size_t count) {
      Bfloat step;
      std::memcpy(&step.bits, from, 2);
      const ConstBytes levels(from + 2, levels_.bytes(count));
      from += 2 + levels.size();
      if (!levels_.add(levels, from_bfloat(step), into.subspan(begin, count))) {
        throw BadCode(fmt::format("a quantized code has levels above {}", most_));
      }
    });
  }

  std::size_t largest_code_bytes(std::size_t elements) const override {
    return blocks_.bytes(elements, [&](std::size_t count) { return 2 + levels_.bytes(count); });
  }

  void visit_state(State state) override { state("random", random_); }

 private:
  // Rounded up, unless s of them would be infinite; NaN where there is infinity or NaN.
  Bfloat step_of(std::uint32_t largest) const {
    if (largest >= kInfinityBits) return {0x7fc0};
    const float step = std::bit_cast<float>(largest) / static_cast<float>(most_);
    const std::uint32_t up = (std::bit_cast<std::uint32_t>(step) + 0xffff) >> 16;
    constexpr float kLargest = std::numeric_limits<float>::max();
    const auto largest_step =
        std::bit_cast<std::uint32_t>(kLargest / static_cast<float>(most_)) >> 16;
    return {static_cast<std::uint16_t>(std::min(up, largest_step))};
  }
  static bool is_nan(Bfloat step) { return step.bits == 0x7fc0; }

  int most_;
  Levels levels_;
  Blocks blocks_;
  bool drawn_;
  Random random_;
};

}  // namespace

std::unique_ptr<Codec> make_quantized(const CodecSettings& settings, const CodecStream& stream) {
  return std::make_unique<Quantized>(settings, stream);
}

}  // namespace starling
