// Sums up a binomial tree and copies down it, among all ranks or among a group of neighbours.
#pragma once

#include <span>

#include "runtime/comm.h"

namespace starling {

// The ranks first, first + 1, ... ; the first is the root.
struct Group {
  int first;
  int size;
};

// The root ends with the sum over the group, in an order fixed by rank; the others' values are used
// up.
Task<> tree_reduce(Comm& comm, Channel channel, Group group, std::span<float> values);
// All end with the root's values.
Task<> tree_broadcast(Comm& comm, Channel channel, Group group, std::span<float> values);

}  // namespace starling
