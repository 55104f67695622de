// One run of a grid, and what grids read in its summary.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "measure/grids.h"
#include "strategy/settings.h"

namespace starling {

// The summary of a training in the folder of that name: trains, unless it was finished there before
// under the same settings; by PyTorch DDP if that is asked for.
nlohmann::json measured_run(const MeasureOptions& options, const Settings& settings,
                            const std::string& name, bool by_ddp = false);

double total(const nlohmann::json& per_worker);
double mean(const nlohmann::json& per_worker);

}  // namespace starling
