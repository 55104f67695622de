// starling bench codecs: what each codec makes of one update: bytes, time and memory.
#pragma once

#include <string>

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

}  // namespace starling
