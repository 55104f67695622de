// What goes between a worker and a server where both speak in codes (codec/codec.h).
//
//   push  the code of the gradient. What it leaves out the worker adds to its next one, unless the
//         settings have no feedback.
//   pull  the code of what the weights are ahead of those that the worker has. The server knows these:
//         it keeps a copy for every worker, the same to the bit as the worker's own, to which both
//         add what the code says. So what one code leaves out is part of the next difference, with
//         feedback or without.
//
// The first weights and the last ones go whole, and so do the first from a server that has taken over
// from a lost one, whose own copies are of the weights that were read, not of what was told of them.
// It costs the server a model for every worker, and a worker two: what its pushes have left out, and
// the weights that it was told.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "codec/codec.h"

namespace starling {

struct ServerCodec {
  CodecSettings settings;
  std::uint64_t seed = 0;

  bool codes() const { return settings.kind != CodecSettings::Kind::raw; }
  // For what one worker pushes of a block.
  std::unique_ptr<Codec> for_pushes(std::uint64_t worker, std::uint64_t key) const {
    return make_codec(settings, {Random{seed, worker, key, 0}.bits(), {}});
  }
  // For what it is told of it.
  std::unique_ptr<Codec> for_pulls(std::uint64_t worker, std::uint64_t key) const {
    CodecSettings of_differences = settings;
    of_differences.feedback = true;
    return make_codec(of_differences, {Random{seed, worker, key, 1}.bits(), {}});
  }
};

}  // namespace starling
