#include "mixing/half_mean.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "codec/codec.h"
#include "math/vector_math.h"

namespace starling {

namespace {

// The power of two to divide by so that all fit into halves, which end at 65504. It is 1 unless
// there is a weight of 32768 or more, and takes no bits from any but those that are tiny beside
// the largest.
float range_of(std::span<const float> weights) {
  float largest = 0;
  for (const float weight : weights) {
    if (std::isfinite(weight)) largest = std::max(largest, std::abs(weight));
  }
  int exponent = 0;
  std::frexp(largest, &exponent);  // largest < 2^exponent
  return std::ldexp(1.0f, std::max(0, exponent - 15));
}

// A vector on its way: its halves behind their range.
class Halves {
 public:
  Halves(Group group, Channel channel, std::size_t elements)
      : group_(group), channel_(channel), values_(elements) {
    codec_ = make_codec({.kind = CodecSettings::Kind::half});
    code_.resize(codec_->largest_code_bytes(elements));
  }

  void encode(std::span<const float> weights) {
    const auto encoding = group_.record(Timeline::Kind::encode, "encode");
    range_ = range_of(weights);
    std::ranges::copy(weights, values_.begin());
    scale(values_, 1 / range_);
    codec_->encode(values_, code_);
  }
  void add_decoded(std::span<float> into) {
    std::ranges::fill(values_, 0.0f);
    codec_->add_decoded(code_, values_);
    subtract_scaled(into, values_, -range_);
  }

  Task<> send(int rank) {
    co_await group_.send(rank, channel_, object_bytes(range_), ConstBytes(code_));
  }
  Task<> receive(int rank) {
    co_await group_.receive(rank, channel_, object_bytes(range_), Bytes(code_));
  }

 private:
  Group group_;
  Channel channel_;
  std::unique_ptr<Codec> codec_;
  float range_ = 1;
  std::vector<float> values_;
  std::vector<std::byte> code_;
};

}  // namespace

Task<> half_mean_of_all(Group group, Channel channel, std::span<float> weights) {
  if (group.size() == 1) co_return;
  constexpr int kCentre = 0;
  Halves halves(group, channel, weights.size());
  if (group.rank() == kCentre) {
    for (int rank = 1; rank < group.size(); ++rank) {
      co_await halves.receive(rank);
      halves.add_decoded(weights);
    }
    scale(weights, 1.0f / static_cast<float>(group.size()));
    halves.encode(weights);
    for (int rank = 1; rank < group.size(); ++rank) co_await halves.send(rank);
  } else {
    halves.encode(weights);
    co_await halves.send(kCentre);
    co_await halves.receive(kCentre);
  }
  std::ranges::fill(weights, 0.0f);
  halves.add_decoded(weights);
}

}  // namespace starling
