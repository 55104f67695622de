// The optimizers that settings name, over the one flat parameter of a model.
#pragma once

#include <torch/optim/optimizer.h>

#include <memory>

#include "job/worker.h"
#include "strategy/settings.h"
#include "train/flat_model.h"

namespace starling {

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const OptimizerSettings& settings,
                                                        FlatModel& model);

// What an optimizer remembers, for a worker that hands it to another. It must outlive that.
Worker::Memory memory_of(torch::optim::Optimizer& optimizer);

}  // namespace starling
