// What a rank goes on from when a run is resumed (job/checkpoint.h).
//
// Where there are as many workers and servers as there were, each takes its own file, and goes on bit
// for bit. For another number the files of all are put together, as far as that has a meaning:
//
//   weights      what all would have agreed on at the end: the mean, weighted as the system has it, the
//                master's model, or what the servers hold
//   optimizer    of workers, the mean of what theirs remember, and the largest count of steps; of servers,
//                what each block had, however blocks are cut now
//   all the rest what workers have alike (State::shared) stays; what was one worker's begins anew
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/state.h"
#include "job/job.h"
#include "strategy/settings.h"

namespace starling {

// Of the checkpoint that the job names; nothing if it names none. `each` sees every worker's own
// snapshot that the result is made of. Throws Error, in one line, if a file is missing or not what it was.
std::optional<Snapshot> load_past(const Job& job, const Settings& settings,
                                  const std::function<void(const Snapshot&)>& each = {});

// The names that a worker's own state stands under.
inline constexpr const char* kWeightsState = "weights";
inline constexpr const char* kFinalState = "final";  // its model at the end, if that is another
inline constexpr const char* kShareState = "share";  // how much that counts
inline constexpr const char* kStrategyState = "strategy";
inline constexpr const char* kOptimizerState = "optimizer";

// Puts the snapshots of workers together.
class MergedPast {
 public:
  // Throws Error if they are not of one model.
  void add(const Snapshot& worker);
  Snapshot result() const;

 private:
  void add_to_mean(std::vector<double>& sum, const std::vector<std::byte>& floats, double weight);

  Snapshot shared_;
  std::vector<double> weights_;
  double shares_ = 0;
  std::map<std::string, std::vector<double>> optimizer_;
  std::map<std::string, std::vector<std::byte>> single_;  // the largest of each
  double workers_ = 0;
};

}  // namespace starling
