// How fast mixing matrices bring workers to agree.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "topology/graph.h"

namespace starling {

// By how much one round shrinks the distance from agreement in the long run: 0 is exact agreement
// after all rounds, 1 is never. It is the magnitude of the second largest eigenvalue of the product
// of all rounds' matrices, per round. All rows must sum to one, or all columns.
double contraction(std::span<const Matrix> rounds);

// After how many rounds the workers differ a tenth as much; nothing if they never agree. Exact
// agreement takes all of the graph's rounds: one for a mesh, log2 n for the exponential graph.
std::optional<std::uint64_t> rounds_to_shrink_tenfold(double contraction, std::uint64_t rounds);

inline double spectral_gap(std::span<const Matrix> rounds) { return 1 - contraction(rounds); }

}  // namespace starling
