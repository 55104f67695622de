// What goes on the wire for a vector of floats, unaware of peers.
//
// A lossy codec says less than it was given and hands the rest back, the residual. Its caller adds
// the residual to the next vector (error feedback), so that everything is sent sooner or later; or
// it forgets the residual (codec_feedback off), and then the codes should be right on average.
//
// One codec cannot serve both: an unbiased code is as wrong as it is short, and what it amplifies
// would come back through the residual and grow. So the three that draw do it in two ways. Here v
// is the vector, Q(v) what is decoded, d the length of a block or of the vector, s the levels.
//
//                 with feedback: contracts                   without: unbiased?
//                 |v - Q(v)|^2 <= (1 - delta) |v|^2
//   raw           delta = 1                                  yes
//   half, bfloat  delta = 1 - 2^-22 and 1 - 2^-16            no, rounded to nearest
//   threshold     only above it: what is smaller waits       no
//   top-k         delta = share                              no
//   random        delta = share on average: draws what is    yes: what is drawn is amplified
//                 sent, and sends it as it is
//   quantized     delta >= 0.9/d: rounds to nearest          yes: rounds up or down by chance
//   hierarchical  delta >= 0.9/d: likewise, and the norms    yes: likewise, norms too
//   sign          delta = |v|_1^2 / (d |v|^2) >= 1/d         no
//   low-rank      0 <= delta: a projection, the closer the   no
//                 fewer directions matter
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/half.h"
#include "base/state.h"
#include "codec/codec_settings.h"

namespace starling {

// One codec is one stream of vectors: it may learn from them, and it keeps its working memory, so
// that neither encoding nor decoding allocates once it has seen its largest vector. It may not be
// used from two threads at once.
class Codec {
 public:
  virtual ~Codec() = default;

  // Replaces `code` (keeping its capacity) by the code for `values`, and leaves in `values` what
  // the code does not carry: zeros after raw, rounding errors after half, all that was not sent
  // after top-k. What is decoded and what is left add up to the value
  // - exactly after raw, bfloat, top-k, and with feedback after random and quantized;
  // - after half and threshold exactly, too, except for values so large that a float cannot hold
  //   the rest (from 2^29, and from 2^16 thresholds); there to one unit in the last place;
  // - after the others to one unit in the last place of the larger of the value and what was sent
  //   for it, as a float cannot hold their difference.
  //
  // Infinities and NaNs are sent as such and leave zero, for a diverged training should show. Where
  // elements share a norm (quantized, hierarchical, sign, low-rank) all of them become NaN.
  // Threshold and random cannot say them: they throw Error and leave the values as they are. Random
  // and low-rank take values whose sum a float cannot hold for infinite, too.
  virtual void encode(std::span<float> values, std::vector<std::byte>& code) = 0;

  // into[i] += what the code says of element i. The code may come from anybody: one that is not for
  // so many elements by a codec of these settings is a BadCode, after which part of it may have
  // been added.
  virtual void add_decoded(ConstBytes code, std::span<float> into) const = 0;

  // No code for so many elements is longer than this; a receiver refuses longer ones unread.
  virtual std::size_t largest_code_bytes(std::size_t elements) const = 0;

  // What it has learned from its stream, and where its draws are.
  virtual void visit_state(State) {}
};

// Where a matrix stands in a flat vector, row by row.
struct Fold {
  std::size_t begin, rows, columns;
};

// What a codec may know of the stream of vectors that it is for. Nobody needs it to decode but for
// the folds.
struct CodecStream {
  // Draws are the same for the same seed, codec and vectors. Ranks should have different ones, or
  // all drop the same elements.
  std::uint64_t seed = 0;
  // For low-rank: the matrices, ascending and apart. What lies between them is sent raw. With none
  // at all, every vector is taken for one matrix, as square as can be.
  std::vector<Fold> folds = {};
};

// Throws Error for a number that makes no sense.
std::unique_ptr<Codec> make_codec(const CodecSettings& settings, const CodecStream& stream = {});

class BadCode : public Error {
 public:
  explicit BadCode(const std::string& what)
      : Error(what, "all workers must run the same program with the same codec") {}
};

// One function a codec, each in the file of its name. The settings are valid.
std::unique_ptr<Codec> make_raw();
std::unique_ptr<Codec> make_half();
std::unique_ptr<Codec> make_bfloat();
std::unique_ptr<Codec> make_threshold(const CodecSettings& settings);
std::unique_ptr<Codec> make_top_k(const CodecSettings& settings);
std::unique_ptr<Codec> make_random(const CodecSettings& settings, const CodecStream& stream);
std::unique_ptr<Codec> make_quantized(const CodecSettings& settings, const CodecStream& stream);
std::unique_ptr<Codec> make_hierarchical(const CodecSettings& settings, const CodecStream& stream);
std::unique_ptr<Codec> make_sign(const CodecSettings& settings);
std::unique_ptr<Codec> make_low_rank(const CodecSettings& settings, const CodecStream& stream);

// Codes are little-endian and written as they are in memory.
static_assert(std::endian::native == std::endian::little);

// What a float leaves when `sent` went in its place. Infinity minus infinity would be NaN.
inline float residual(float value, float sent) {
  return std::bit_cast<float>(
      if_less(magnitude_bits(value), kInfinityBits, std::bit_cast<std::uint32_t>(value - sent), 0));
}

// Neither 16-bit format rounds a finite number to infinity here: what is larger than its largest
// number is sent as that number, and the rest remains.
inline Half finite_half(float value) {
  const Half rounded = to_half(value);
  const std::uint32_t is_infinite = (rounded.bits & 0x7fff) == 0x7c00;
  return {static_cast<std::uint16_t>(
      rounded.bits - if_less(magnitude_bits(value), kInfinityBits, is_infinite, 0))};
}
inline Bfloat finite_bfloat(float value) {
  const Bfloat rounded = to_bfloat(value);
  const std::uint32_t is_infinite = (rounded.bits & 0x7fff) == 0x7f80;
  return {static_cast<std::uint16_t>(
      rounded.bits - if_less(magnitude_bits(value), kInfinityBits, is_infinite, 0))};
}

}  // namespace starling
