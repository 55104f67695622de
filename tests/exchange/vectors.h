// Vectors of all ranks, and the channel that they take.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "runtime/comm.h"

namespace starling {

using Vectors = std::vector<std::vector<float>>;

inline constexpr Channel kWeights{1, Purpose::weights};

inline Vectors random_vectors(int size, std::size_t elements, std::uint64_t seed) {
  Random random{seed, static_cast<std::uint64_t>(size), elements};
  Vectors vectors(static_cast<std::size_t>(size), std::vector<float>(elements));
  for (auto& vector : vectors) {
    for (float& value : vector) value = static_cast<float>(random.uniform(-1, 1));
  }
  return vectors;
}

}  // namespace starling
