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
      return make_top_k(settings);
    case random:
    case quantized:
    case hierarchical:
    case sign:
    case low_rank:
      break;
  }
  throw Error(fmt::format("codec {} is not there yet", settings.kind));
}

void check_between(const char* what, int number, int least, int most) {
  if (number >= least && number <= most) return;
  throw Error(fmt::format("a codec cannot have {} {}", what, number),
              fmt::format("give it from {} to {}", least, most));
}

}  // namespace

std::unique_ptr<Codec> make_codec(const CodecSettings& settings, const CodecStream&) {
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
  std::unique_ptr<Codec> codec = make_plain(settings);
  return settings.entropy ? with_entropy(std::move(codec)) : std::move(codec);
}

}  // namespace starling
