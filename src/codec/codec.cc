#include "codec/codec.h"

#include <fmt/format.h>

#include "codec/entropy.h"

namespace starling {

namespace {

std::unique_ptr<Codec> make_plain(const CodecSettings& settings) {
  switch (settings.kind) {
    using enum CodecSettings::Kind;
    case raw:
      return make_raw();
    case half:
      return make_half();
    case bfloat:
      return make_bfloat();
    case threshold:
      return make_threshold(settings);
    case top_k:
      break;
  }
  return make_top_k(settings);
}

}  // namespace

std::unique_ptr<Codec> make_codec(const CodecSettings& settings) {
  if (!(settings.share > 0 && settings.share <= 1)) {  // nor NaN
    throw Error(fmt::format("a codec cannot send a share of {}", settings.share),
                "give one above 0 and up to 1");
  }
  if (!(settings.threshold >= kSmallestThreshold && settings.threshold <= kLargestThreshold)) {
    throw Error(
        fmt::format("a codec cannot have the threshold {}", settings.threshold),
        fmt::format("give one from {:.0e} to {:.0e}", kSmallestThreshold, kLargestThreshold));
  }
  std::unique_ptr<Codec> codec = make_plain(settings);
  return settings.entropy ? with_entropy(std::move(codec)) : std::move(codec);
}

}  // namespace starling
