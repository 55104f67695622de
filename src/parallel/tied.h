// A parameter that two layers share, such as the matrix of an embedding and of the last layer. In a
// pipeline its layers live in two stages, each with a copy: if both begin alike and add up the
// gradients of both before each update, they stay alike.
#pragma once

#include "runtime/group.h"
#include "train/blueprint.h"

namespace starling {

// Called by every stage after the backward passes; those without a copy have nothing to do.
Task<> add_tied_gradients(Group stages, const Model& stage, const Blueprint::Tie& tie);

}  // namespace starling
