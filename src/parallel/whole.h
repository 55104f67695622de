// What the ranks that share a network have of it only together: whole parameters.
#pragma once

#include <optional>

#include "runtime/group.h"
#include "train/model.h"

namespace starling {

// All ranks call it for the same parameter (or its gradient, or an optimizer's state of it), of which
// each has its slice. Rank 0 gets the whole, the others an empty tensor; what everybody has whole,
// rank 0 gets as it is.
Task<torch::Tensor> assemble(Group tensor, torch::Tensor mine, std::optional<Slice> slice);

}  // namespace starling
