// What the layers of a built-in network take on this machine, measured by the trainer's program.
#pragma once

#include <vector>

#include "strategy/train_settings.h"
#include "topology/cut.h"

namespace starling {

struct LayerProfile {
  std::vector<LayerCost> layers;  // for one micro-batch
  std::uint64_t tied_bytes = 0;   // of a parameter that the first and the last layer share
  std::string machine;            // what it ran on
};

// With `settings.batch` samples as the micro-batch, shown on a bar meanwhile. Throws Error if there is
// no such model.
LayerProfile profile_layers(const TrainSettings& settings);

}  // namespace starling
