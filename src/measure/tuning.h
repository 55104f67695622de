// The same training at several learning rates, and which of them is the best.
#pragma once

#include <string>
#include <vector>

#include "measure/reached.h"

namespace starling {

struct Tried {
  double lr;
  std::vector<RunSummary> runs;  // one a seed
};

// From the first so many of the options' seeds, in a folder that names the rate. A training that
// breaks down at this rate counts as one that does not get anywhere; one that cannot begin throws Error.
Tried tried_at(const MeasureOptions& options, Settings settings, const std::string& name, double lr,
               int seeds);

// Of these, the one that gets to the goal from most seeds, then on the fewest samples; where none
// does, the one with the best model.
std::size_t best_of(const Subject& subject, const std::vector<Tried>& tried);

// "0.1: 360 steps, 0.2: 216, 0.4: -", the steps that each took to the goal.
std::string describe(const Subject& subject, const std::vector<Tried>& tried);

}  // namespace starling
