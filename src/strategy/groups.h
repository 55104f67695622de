// The groups of a training, all in one table: each has channels of its own, so that what one part of
// it says is not heard by another.
#pragma once

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
  grid,         // all workers, where a model is spread over several: results, parting
  copy,         // the workers that have one copy of the model: what batch, what came of it
  pipeline,     // the stages of a model: activations and their gradients
  tensor,       // the parts of a stage: activations and their gradients
  estate,       // the workers: what a generation takes over from the one before
  blocks,       // who may serve: the same for the blocks of servers
  tied,         // two stages that have copies of one parameter
  generations,  // those who are left, as often as somebody is lost: from this number on
};

inline Group apart(Group group, GroupNumber number) {
  return group.apart(static_cast<std::uint32_t>(number));
}

// The workers that share a proxy, which is the first of them, with this one.
inline Group team_of(Group workers, int size, GroupNumber number) {
  std::vector<int> ranks;
  const int first = workers.rank() / size * size;
  for (int place = first; place < first + size; ++place) ranks.push_back(workers.in_comm(place));
  return Group(workers.comm(), ranks, static_cast<std::uint32_t>(number));
}

}  // namespace starling
