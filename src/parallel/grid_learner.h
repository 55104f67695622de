// A model on a grid of workers (strategy/grid.h): each makes the slice that it has, and computes with
// the others of its copy.
#pragma once

#include "train/learner.h"

namespace starling {

// Throws Error, in one sentence, if the network cannot be spread like that.
std::unique_ptr<Workshop> grid_workshop(const Settings& settings);

}  // namespace starling
