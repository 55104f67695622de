// How far a whole grid of runs is, how long the rest will take, and where the runs are.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace starling {

class GridProgress {
 public:
  explicit GridProgress(std::string name) : name_(std::move(name)) {}

  // Before the first run: how many there will be.
  void expect(std::size_t runs) { runs_ = runs; }
  void begin(std::string run);
  // It is in that folder; measured now, or before by another call.
  void end(const std::filesystem::path& folder, bool before = false);

  // While a run has done that share of its work.
  double share(double share_of_run) const;
  std::string describe(double share_of_run) const;  // "3 of 20, 4 min left: d-psgd"

  const std::string& name() const { return name_; }
  const std::vector<std::filesystem::path>& done() const { return done_; }

 private:
  using Clock = std::chrono::steady_clock;

  std::string name_, run_;
  std::size_t runs_ = 1;
  std::vector<std::filesystem::path> done_;
  std::size_t measured_ = 0;      // of them, now and not before,
  Clock::duration measuring_{0};  // in this time
  Clock::time_point begun_ = Clock::now();
};

}  // namespace starling
