// starling bench codecs: what each codec makes of one update: bytes, time and memory.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "codec/codec_settings.h"
#include "measure/contestants.h"

namespace starling {

struct CodecBench {
  std::size_t elements = 14'600'000;  // 58.4 MB
  std::string gradient;               // a file of float32s; empty: drawn from the seed
  std::uint64_t seed = 1;
  double threshold = 2;  // in root mean squares of the update
  int rounds = 3;        // of which the fastest counts
};

BenchResult bench_codecs(const CodecBench& bench);

struct CodecCost {
  std::size_t bytes = 0;
  double encode_seconds = std::numeric_limits<double>::infinity();
  double decode_seconds = std::numeric_limits<double>::infinity();
  std::size_t memory_bytes = 0;  // that the codec keeps, beside the vector and the code
  double left = 0;               // of the squared length, for the residual
};

// The fastest of the bench's rounds.
CodecCost cost_of(const CodecSettings& settings, const CodecBench& bench,
                  const std::vector<float>& update);

// Heavy-tailed, as updates are: normal, times a scale that differs from element to element.
std::vector<float> drawn_update(std::size_t elements, std::uint64_t seed);

}  // namespace starling
