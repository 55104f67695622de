// Top-k: the k elements of largest magnitude, rounded to bfloat; all others remain (Aji and
// Heafield 2017). Among equals the first ones are sent; zeros never are.
//
// The code is a sparse one (sparse_values.h).
#include <array>
#include <cmath>
#include <functional>

#include "codec/codec.h"
#include "codec/selection.h"
#include "codec/sparse_values.h"

namespace starling {

namespace {

class TopK : public Codec {
 public:
  explicit TopK(const CodecSettings& settings) : share_(settings.share) {}

  void encode(std::span<float> values, std::vector<std::byte>& code) override {
    auto [count, least, equals] = choose(values);
    chosen_.take_at_least(values, least);
    code.reserve(largest_code_bytes(values.size()));
    SparseValuesWriter writer(code, values.size(), count);
    chosen_.each([&](std::size_t i) {
      if (magnitude_bits(values[i]) == least) {
        if (equals == 0) return;
        --equals;
      }
      const Bfloat sent = finite_bfloat(values[i]);
      writer.put(i, sent);
      values[i] = residual(values[i], from_bfloat(sent));
    });
    writer.finish();
  }

  void add_decoded(ConstBytes code, std::span<float> into) const override {
    add_sparse_values(code, most(into.size()), "top-k", into);
  }

  std::size_t largest_code_bytes(std::size_t elements) const override {
    return sparse_values_bytes(elements, most(elements));
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
    if (k == 0) return {0, 1, 0};
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
    if (least == 0) return {above, 1, above};
    return {k, least, k - above};
  }

  static constexpr int kLowerBits = 20;  // the rest are the exponent and three bits more

  double share_;
  std::array<std::uint32_t, (0x80000000u >> kLowerBits)> histogram_;
  std::vector<std::uint32_t> bucket_;  // the magnitudes in the bucket that holds the k-th
  Selection chosen_;                   // all of the k-th's magnitude and above
};

}  // namespace

std::unique_ptr<Codec> make_top_k(const CodecSettings& settings) {
  return std::make_unique<TopK>(settings);
}

}  // namespace starling
