// One run of a grid.
#pragma once

#include <string>

#include "job/run_summary.h"
#include "measure/grids.h"
#include "strategy/settings.h"

namespace starling {

// The summary of a training in the folder of that name: trains, unless it was finished there before
// under the same settings; by PyTorch DDP if that is asked for. Throws TrainingBroke if it breaks down,
// and Error if it cannot begin.
RunSummary measured_run(const MeasureOptions& options, const Settings& settings,
                        const std::string& name, bool by_ddp = false);

}  // namespace starling
