// What the codecs' tests share.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <ostream>
#include <vector>

#include "base/random.h"
#include "codec/codec.h"

namespace starling {

using Code = std::vector<std::byte>;

// How the tests name a codec.
inline std::ostream& operator<<(std::ostream& out, const CodecSettings& settings) {
  return out << name_of(settings.kind) << ", share " << settings.share << ", threshold "
             << settings.threshold << (settings.adaptive ? ", adaptive" : "") << ", levels "
             << settings.levels << ", block " << settings.block << ", rank " << settings.rank
             << (settings.feedback ? "" : ", no feedback") << (settings.entropy ? ", entropy" : "");
}

inline std::vector<float> normals(std::size_t count, std::uint64_t seed, double scale = 1) {
  Random random{seed, count};
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(scale * random.normal());
  return values;
}

// As gradients are: most are small, a few are large.
inline std::vector<float> heavy_tailed(std::size_t count, std::uint64_t seed) {
  Random random{seed, count, 1};
  std::vector<float> values(count);
  for (float& value : values) {
    value = static_cast<float>(1e-3 * random.normal() * std::exp(1.5 * random.normal()));
  }
  return values;
}

inline double squared_length(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

inline std::vector<float> decoded(const Codec& codec, ConstBytes code, std::size_t elements) {
  std::vector<float> values(elements);
  codec.add_decoded(code, values);
  return values;
}

struct Sent {
  Code code;
  std::vector<float> decoded, rest;
};

inline Sent send(Codec& codec, std::vector<float> values) {
  Sent sent;
  codec.encode(values, sent.code);
  EXPECT_LE(sent.code.size(), codec.largest_code_bytes(values.size()));
  sent.decoded = decoded(codec, sent.code, values.size());
  sent.rest = std::move(values);
  return sent;
}

inline Sent send(const CodecSettings& settings, std::vector<float> values) {
  return send(*make_codec(settings), std::move(values));
}

}  // namespace starling
