// The binomial tree over n ranks with rank 0 as its root: rank r's parent is r without its lowest
// set bit. In round k of a broadcast (counted down from the top bit) every rank below 2^k passes on
// to rank + 2^k; a reduction runs the same rounds backwards.
#pragma once

#include <bit>

namespace starling {

inline int tree_parent(int rank) { return rank & (rank - 1); }

// The distance to a rank's parent, which bounds its children: rank + 1, rank + 2, rank + 4 ...
// below it. The root has children at every power of two.
inline int tree_reach(int rank, int size) {
  return rank == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(size))) : rank & -rank;
}

}  // namespace starling
