// A parameter that two layers share, such as the matrix of an embedding and of the last layer. In a
// pipeline its layers live in two stages, each with a copy: if both begin alike and add up the
// gradients of both before each update, they stay alike.
#pragma once

#include "runtime/group.h"
#include "train/model.h"

namespace starling {

// The stages that have a copy: the first and the last.
Group tied_pair(Group stages);
// Called by both after the backward passes.
Task<> add_tied_gradients(Group pair, const Model& stage);

}  // namespace starling
