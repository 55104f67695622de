#include "mixing/half_mean.h"

#include <algorithm>
#include <vector>

#include "codec/codec.h"
#include "exchange/vector_math.h"

namespace starling {

Task<> half_mean_of_all(Comm& comm, Channel channel, std::span<float> weights) {
  if (comm.size() == 1) co_return;
  constexpr int kCentre = 0;
  CodecSettings half;
  half.name = "half";
  const auto codec = make_codec(half);
  std::vector<std::byte> code(codec->largest_code_bytes(weights.size()));
  std::vector<float> rounded(weights.size());
  const auto encode = [&] {
    const auto encoding = comm.record(Timeline::Kind::encode, "encode");
    std::ranges::copy(weights, rounded.begin());
    codec->encode(rounded, code);
  };
  if (comm.rank() == kCentre) {
    for (int rank = 1; rank < comm.size(); ++rank) {
      co_await comm.receive(rank, channel, Bytes(code));
      codec->add_decoded(code, weights);
    }
    scale(weights, 1.0f / static_cast<float>(comm.size()));
    encode();
    for (int rank = 1; rank < comm.size(); ++rank) {
      co_await comm.send(rank, channel, std::span(code));
    }
  } else {
    encode();
    co_await comm.send(kCentre, channel, std::span(code));
    co_await comm.receive(kCentre, channel, Bytes(code));
  }
  std::ranges::fill(weights, 0.0f);
  codec->add_decoded(code, weights);
}

}  // namespace starling
