// Threshold: an element that reaches the threshold t is sent as its index and sign, which mean +t
// or -t; the rest remains (Strom 2015, and deeplearning4j after it).
//
// The code: t as a bfloat (2 bytes), how many elements are sent (4 bytes), then their gaps, each
// with a sign bit. That is a sparse form for few elements and a bitmap for many, see sparse.h; it
// never takes more than two bits an element. As t has only a bfloat's eight bits, v - t is exact up
// to 2^16 t.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "codec/codec.h"
#include "codec/levels.h"
#include "codec/selection.h"
#include "codec/sparse.h"

namespace starling {

namespace {

// Adaptive: between these shares of elements sent the threshold stays. Else it moves by a factor
// small enough not to jump over the range, which for normal values spans a factor of 1.5; to a
// thousandth or a thousandfold it gets in 142 vectors.
constexpr double kSmallestShare = 1e-4, kLargestShare = 1e-2;
constexpr double kFactor = 1.05;

class Threshold : public Codec {
 public:
  explicit Threshold(const CodecSettings& settings)
      : threshold_(settings.threshold), adaptive_(settings.adaptive) {}

  void encode(std::span<float> values, std::vector<std::byte>& code) override {
    const std::uint16_t sent = finite_bfloat(static_cast<float>(threshold_)).bits;
    const float threshold = from_bfloat(Bfloat{sent});
    const std::uint32_t largest = survey(values);
    chosen_.take_at_least(values, magnitude_bits(threshold));
    const std::size_t count = chosen_.count();
    const Header header{.threshold = sent, .count = static_cast<std::uint32_t>(count)};
    code.reserve(largest_code_bytes(values.size()));
    code.resize(kHeaderBytes);
    write(header, code);
    GapWriter gaps(code, values.size(), count);
    chosen_.each([&](std::size_t i) {
      gaps.put(i);
      gaps.put_bit(values[i] < 0);
      values[i] -= std::copysign(threshold, values[i]);
    });
    gaps.finish();
    if (adaptive_ && largest > 0) adapt(count, values.size());
  }

  void add_decoded(ConstBytes code, std::span<float> into) const override {
    if (code.size() < kHeaderBytes) throw BadCode("a threshold code ends in its header");
    const Header header = read(code);
    const float threshold = from_bfloat(Bfloat{header.threshold});
    if (!(threshold > 0 && std::isfinite(threshold))) {
      throw BadCode(fmt::format("a code has the threshold {}", threshold));
    }
    GapReader gaps(code.subspan(kHeaderBytes), into.size(), header.count);
    for (std::uint32_t i = 0; i < header.count; ++i) {
      const std::size_t index = gaps.next();
      into[index] += gaps.next_bit() ? -threshold : threshold;
    }
    gaps.finish();
  }

  // The most are sent when all are: a bit in the bitmap and a sign each.
  std::size_t largest_code_bytes(std::size_t elements) const override {
    return kHeaderBytes + (largest_gap_bits(elements, elements) + elements + 7) / 8;
  }

  void visit_state(State state) override { state("threshold", threshold_); }

 private:
  struct Header {
    std::uint16_t threshold;
    std::uint32_t count;
  };
  static constexpr std::size_t kHeaderBytes = 2 + 4;  // without what a compiler puts between

  static void write(const Header& header, std::vector<std::byte>& code) {
    std::memcpy(&code[0], &header.threshold, 2);
    std::memcpy(&code[2], &header.count, 4);
  }
  static Header read(ConstBytes code) {
    Header header;
    std::memcpy(&header.threshold, &code[0], 2);
    std::memcpy(&header.count, &code[2], 4);
    return header;
  }

  // The largest magnitude. Looks before anything is changed, as there may be what cannot be sent.
  static std::uint32_t survey(std::span<const float> values) {
    STARLING_CHECK(values.size() <= std::numeric_limits<std::uint32_t>::max(), "{} elements",
                   values.size());
    const std::uint32_t largest = largest_magnitude(values);
    if (largest >= kInfinityBits) {
      throw Error("the threshold codec was given infinity or NaN, which it cannot send",
                  "the training has diverged; lower the learning rate");
    }
    return largest;
  }

  // Zeros alone say nothing, and do not come here: the threshold would sink for as long as nothing
  // happens, and take as long to return.
  void adapt(std::size_t sent, std::size_t elements) {
    const double share = static_cast<double>(sent) / static_cast<double>(elements);
    if (share > kLargestShare) threshold_ *= kFactor;
    if (share < kSmallestShare) threshold_ /= kFactor;
    threshold_ = std::clamp(threshold_, kSmallestThreshold, kLargestThreshold);
  }

  double threshold_;
  bool adaptive_;
  Selection chosen_;
};

}  // namespace

std::unique_ptr<Codec> make_threshold(const CodecSettings& settings) {
  return std::make_unique<Threshold>(settings);
}

}  // namespace starling
