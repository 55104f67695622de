// The same training from several seeds: what a single run says of learning may be chance.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "measure/measured_run.h"

namespace starling {

// From as many seeds as the options say, counted on from the settings' own; each in a folder of its
// own in that of the name.
std::vector<RunSummary> measured_over_seeds(const MeasureOptions& options, const Settings& settings,
                                            const std::string& name, bool by_ddp = false);

// The folder of the run from that seed.
std::filesystem::path seed_folder(const MeasureOptions& options, const std::string& name, int seed);

// What the seeds gave of one number.
struct Sample {
  std::vector<double> values;

  double mean() const;
  // Of single values, estimated from these (n - 1 degrees of freedom); 0 for fewer than two.
  double deviation() const;
  double low() const;
  double high() const;
};

Sample sample_of(const std::vector<RunSummary>& runs,
                 const std::function<double(const RunSummary&)>& number);

// "97.31 ± 0.12 %", or "97.31 %" for a single value.
std::string format_percent(const Sample& shares);

}  // namespace starling
