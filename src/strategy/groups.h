// The groups of a training, all in one table: each has channels of its own, so that what one part of
// it says is not heard by another.
#pragma once

#include <numeric>
#include <vector>

#include "runtime/group.h"

namespace starling {

enum class GroupNumber : std::uint32_t {
  control,      // everybody: results, evaluations, parting
  training,     // the workers: first weights, gradients, final model
  mixing,       // the workers: weights of neighbours, letters
  progress,     // the workers: how far each is
  survivors,    // the workers: who is left agrees on the final model
  serving,      // everybody: workers and servers
  team,         // the workers that share a proxy
  dealing,      // the same: what work they do
  pipeline,     // the stages of a model: activations and their gradients
  tied,         // two stages that have copies of one parameter
  tensor,       // ranks that share every layer: activations, slices of parameters
  generations,  // those who are left, as often as somebody is lost: from this number on
};

inline Group apart(Group group, GroupNumber number) {
  return group.apart(static_cast<std::uint32_t>(number));
}

// Where workers and servers meet.
inline Group serving_group(Comm& comm) { return apart(comm, GroupNumber::serving); }

// The workers that share a proxy, which is the first of them, with this one.
inline Group team_of(Group workers, int size, GroupNumber number) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), workers.rank() / size * size);
  return Group(workers.comm(), ranks, static_cast<std::uint32_t>(number));
}

}  // namespace starling
