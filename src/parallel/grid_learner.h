// A model on a grid of workers (strategy/grid.h): each makes the slice that it has, and computes with
// the others of its copy.
#pragma once

#include "parallel/tensor_group.h"
#include "train/blueprint.h"
#include "train/learner.h"
#include "train/loss.h"

namespace starling {

// Throws Error, in one sentence, if the network cannot be spread like that.
std::unique_ptr<Workshop> grid_workshop(const Settings& settings);

// The layers of each stage: as they are written, or by their costs, which rank 0 measures on an example
// of a batch and tells all. Throws Error, in one sentence, if there is no such cut.
std::vector<Range> agree_on_cut(const Settings& settings, Session& session,
                                const Blueprint& blueprint, const DataSet::Batch& example,
                                const Loss& loss);

std::unique_ptr<Learner> grid_learner(Dist& dist, const Settings& settings, TensorGroup parts,
                                      Loss loss = mean_cross_entropy);

}  // namespace starling
