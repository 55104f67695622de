// What the layers of a network take, measured here: by this a pipeline is cut into stages.
#pragma once

#include <functional>

#include "topology/cut.h"
#include "train/blueprint.h"
#include "train/data_set.h"
#include "train/loss.h"

namespace starling {

// Runs the layers one by one on a micro-batch, there and back, so many times, and takes the median of
// each; the loss counts with the last one. Time is what the processor works for this thread, so that
// others on the machine do not count: torch should have one. `progress` hears how large a share is
// done.
std::vector<LayerCost> measure_layers(
    const Blueprint& blueprint, const DataSet::Batch& micro_batch, const Loss& loss,
    int repetitions, const std::function<void(double share)>& progress = [](double) {});

// The bytes of the parameter that two layers share, if any is.
std::uint64_t tied_bytes(const Blueprint& blueprint);

// Samples of the right shape for a built-in network, with random contents: how long a layer takes
// does not depend on them.
DataSet::Batch random_batch(const TrainSettings& settings, std::int64_t samples);

// As many symbols as the King James Bible has, or classes of digits.
int usual_classes(const TrainSettings& settings);

}  // namespace starling
