// Top-k: the k elements of largest magnitude, rounded to bfloat; all others remain (Aji and
// Heafield 2017). Among equals the first ones are sent; zeros never are.
//
// The code: how many elements (4 bytes), their values (2 bytes each), their gaps (sparse.h).
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "base/check.h"
#include "codec/codec.h"
#include "codec/sparse.h"

namespace starling {

namespace {

using Count = std::uint32_t;

class TopK : public Codec {
 public:
  explicit TopK(const CodecSettings& settings) : share_(settings.share) {}

  void encode(std::span<float> values, std::vector<std::byte>& code) override {
    STARLING_CHECK(values.size() <= std::numeric_limits<Count>::max(), "{} elements",
                   values.size());
    auto [count, least, equals] = choose(values);
    const auto header = static_cast<Count>(count);
    std::size_t value_at = sizeof header;
    code.reserve(largest_code_bytes(values.size()));
    code.resize(sizeof header + 2 * count);
    std::memcpy(code.data(), &header, sizeof header);
    GapWriter gaps(code, values.size(), count);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint32_t magnitude = magnitude_bits(values[i]);
      if (magnitude < least || (magnitude == least && equals == 0)) continue;
      if (magnitude == least) --equals;
      const std::uint16_t sent = finite_bfloat(values[i]).bits;
      std::memcpy(&code[value_at], &sent, sizeof sent);
      value_at += sizeof sent;
      gaps.put(i);
      values[i] = residual(values[i], from_bfloat(Bfloat{sent}));
    }
    gaps.finish();
  }

  void add_decoded(ConstBytes code, std::span<float> into) const override {
    Count count;
    if (code.size() < sizeof count) throw BadCode("a top-k code ends in its header");
    std::memcpy(&count, code.data(), sizeof count);
    ConstBytes rest = code.subspan(sizeof count);
    if (count > most(into.size()) || rest.size() / 2 < count) {
      throw BadCode(fmt::format("{} bytes are no top-k code of {} among {} elements", code.size(),
                                count, into.size()));
    }
    const ConstBytes sent = rest.first(2 * std::size_t{count});
    GapReader gaps(rest.subspan(sent.size()), into.size(), count);
    for (std::size_t i = 0; i < sent.size(); i += 2) {
      std::uint16_t value;
      std::memcpy(&value, &sent[i], sizeof value);
      into[gaps.next()] += from_bfloat(Bfloat{value});
    }
    gaps.finish();
  }

  std::size_t largest_code_bytes(std::size_t elements) const override {
    const std::size_t count = most(elements);
    return sizeof(Count) + 2 * count + (largest_gap_bits(elements, count) + 7) / 8;
  }

 private:
  struct Choice {
    std::size_t count;    // how many are sent: all above `least`, and
    std::uint32_t least;  // of this magnitude
    std::size_t equals;   // so many
  };

  std::size_t most(std::size_t elements) const {
    if (elements == 0) return 0;
    const auto count =
        static_cast<std::size_t>(std::llround(share_ * static_cast<double>(elements)));
    return std::clamp<std::size_t>(count, 1, elements);
  }

  // The k-th largest magnitude, by its upper bits first: most elements are seen but twice, and
  // without a branch that cannot be foretold.
  Choice choose(std::span<const float> values) {
    const std::size_t k = most(values.size());
    if (k == 0) return {0, 0, 0};
    histogram_.fill(0);
    for (const float value : values) ++histogram_[magnitude_bits(value) >> kLowerBits];
    std::size_t bucket = histogram_.size() - 1, above = 0;
    for (; above + histogram_[bucket] < k; --bucket) above += histogram_[bucket];
    bucket_.clear();
    bucket_.reserve(values.size());  // one day all may be in it
    for (const float value : values) {
      const std::uint32_t magnitude = magnitude_bits(value);
      if (magnitude >> kLowerBits == bucket) bucket_.push_back(magnitude);
    }
    const auto kth = bucket_.begin() + static_cast<std::ptrdiff_t>(k - above - 1);
    std::ranges::nth_element(bucket_, kth, std::greater());
    const std::uint32_t least = *kth;
    above += static_cast<std::size_t>(
        std::count_if(bucket_.begin(), kth, [&](std::uint32_t m) { return m > least; }));
    if (least == 0) return {above, 0, 0};
    return {k, least, k - above};
  }

  static constexpr int kLowerBits = 20;  // the rest are the exponent and three bits more

  double share_;
  std::array<Count, (0x80000000u >> kLowerBits)> histogram_;
  std::vector<std::uint32_t> bucket_;  // the magnitudes in the bucket that holds the k-th
};

}  // namespace

std::unique_ptr<Codec> make_top_k(const CodecSettings& settings) {
  return std::make_unique<TopK>(settings);
}

}  // namespace starling
