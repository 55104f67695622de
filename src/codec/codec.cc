#include "codec/codec.h"

#include <fmt/format.h>

#include "codec/entropy.h"

namespace starling {

namespace {

std::unique_ptr<Codec> make_plain(const CodecSettings& settings, const CodecStream& stream) {
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
      return make_top_k(settings);
    case random:
      return make_random(settings, stream);
    case quantized:
      return make_quantized(settings, stream);
    case hierarchical:
      return make_hierarchical(settings, stream);
    case sign:
      return make_sign(settings);
    case low_rank:
      break;
  }
  return make_low_rank(settings, stream);
}

void check_between(const char* what, int number, int least, int most) {
  if (number >= least && number <= most) return;
  throw Error(fmt::format("a codec cannot have {} {}", what, number),
              fmt::format("give it from {} to {}", least, most));
}

}  // namespace

std::unique_ptr<Codec> make_codec(const CodecSettings& settings, const CodecStream& stream) {
  if (!(settings.share > 0 && settings.share <= 1)) {  // nor NaN
    throw Error(fmt::format("a codec cannot send a share of {}", settings.share),
                "give one above 0 and up to 1");
  }
  if (!(settings.threshold >= kSmallestThreshold && settings.threshold <= kLargestThreshold)) {
    throw Error(
        fmt::format("a codec cannot have the threshold {}", settings.threshold),
        fmt::format("give one from {:.0e} to {:.0e}", kSmallestThreshold, kLargestThreshold));
  }
  check_between("levels of", settings.levels, 1, kMostLevels);
  check_between("a block of", settings.block, kSmallestBlock, kLargestBlock);
  check_between("a rank of", settings.rank, 1, kMostRank);
  std::unique_ptr<Codec> codec = make_plain(settings, stream);
  return settings.entropy ? with_entropy(std::move(codec)) : std::move(codec);
}

}  // namespace starling
