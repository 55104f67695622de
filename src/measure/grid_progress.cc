#include "measure/grid_progress.h"

#include <fmt/format.h>

#include "base/units.h"

namespace starling {

void GridProgress::begin(std::string run) {
  run_ = std::move(run);
  begun_ = Clock::now();
}

void GridProgress::end(const std::filesystem::path& folder, bool before) {
  done_.push_back(folder);
  if (before) return;
  measuring_ += Clock::now() - begun_;
  ++measured_;
}

double GridProgress::share(double share_of_run) const {
  return (static_cast<double>(done_.size()) + share_of_run) / static_cast<double>(runs_);
}

std::string GridProgress::describe(double share_of_run) const {
  const std::string place = fmt::format("{} of {}", done_.size() + 1, runs_);
  const double worked = static_cast<double>(measured_) + share_of_run;
  if (worked <= 0) return fmt::format("{}: {}", place, run_);
  // Runs that were measured before took none of this time.
  const double spent = std::chrono::duration<double>(measuring_ + (Clock::now() - begun_)).count();
  const double left = static_cast<double>(runs_ - done_.size()) - share_of_run;
  return fmt::format(
      "{}, {} left: {}", place,
      format_duration(std::chrono::seconds(static_cast<long>(spent / worked * left))), run_);
}

}  // namespace starling
