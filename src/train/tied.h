// Parameters that several workers of a model have.
//
//   tied    one that two layers share, such as the matrix of an embedding and of the last layer. In a
//           pipeline its layers live in two stages, each with a copy: both begin alike, and add up the
//           gradients of both before each update
//   whole   one that all parts of a stage have, such as the bias of a layer that is split by inputs:
//           all have the same gradient
//
// What is done with these gradients is each slice's own affair: where that may not be the same
// (strategy/grid.h), the first one's weights go to the others after each step.
#pragma once

#include "runtime/group.h"
#include "train/model.h"

namespace starling {

// The stages that have a copy: the first and the last.
Group tied_pair(Group stages);
// Called by both after the backward passes.
Task<> add_tied_gradients(Group pair, const Model& stage);
// Called by all of a copy: the weights of what others have, too, become the first one's.
Task<> share_weights(Group parts, std::optional<Group> pair, const Model& slice);

}  // namespace starling
