// How fast mixing matrices bring workers to agree.
#pragma once

#include <span>

#include "topology/graph.h"

namespace starling {

// By how much one round shrinks the distance from agreement in the long run: 0 is exact agreement
// after all rounds, 1 is never. It is the magnitude of the second largest eigenvalue of the product
// of all rounds' matrices, per round. All rows must sum to one, or all columns.
double contraction(std::span<const Matrix> rounds);

inline double spectral_gap(std::span<const Matrix> rounds) { return 1 - contraction(rounds); }

}  // namespace starling
