// How soon runs that are the same but for their seed got to a goal.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "measure/subject.h"

namespace starling {

struct Reached {
  Reached(const Subject& subject, const std::vector<RunSummary>& runs);

  // Of those that got there.
  Sample seconds, steps, samples, bytes;
  Sample all_steps;  // of the others, too
  std::size_t runs;

  std::size_t count() const { return seconds.values.size(); }
  bool all() const { return count() == runs; }
  // None if nobody got there.
  std::optional<double> mean(Sample Reached::*of) const;
  // Its mean and deviation as `format` has them, behind them how many of the runs these are of if not
  // of all.
  std::string text(const Sample& of,
                   const std::function<std::string(double mean, double deviation)>& format) const;
};

// "97 %", "2.2 bits per character"
std::string describe(const Target& goal, const Subject& subject);

}  // namespace starling
