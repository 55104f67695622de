// Adasum (Maleki et al., 2020): of two vectors, the sum with what they have in common counted once,
//
//   a + b - (a.b / 2 |a|^2) a - (a.b / 2 |b|^2) b
//
// so that orthogonal ones add up and parallel ones average. Of more, pair by pair as in recursive
// doubling: log2 n |w| a rank. Ranks beyond a power of two are taken in by a neighbour first.
#pragma once

#include "base/vector.h"
#include "runtime/group.h"

namespace starling {

// Of floating-point elements; every rank ends with the same bits. 16-bit ones are combined as f32.
Task<> adasum(Group group, Channel channel, Vector values);

}  // namespace starling
