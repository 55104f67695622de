// What a run has come to so far, from what its workers and servers tell: all that there is to say of
// one that was interrupted, that failed, or that is a program of the user's own.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "job/run_summary.h"
#include "strategy/settings.h"

namespace starling {

class RunTally {
 public:
  explicit RunTally(const Settings& settings) : settings_(settings) {}

  void take(int rank, const nlohmann::json& event);
  // A program has its own.
  void set(const Settings& settings) { settings_ = settings; }

  // Whether the built-in trainer came to its end.
  bool has_result() const { return result_.has_value(); }
  RunSummary summary() const;

  // Where a worker stopped that left the last model behind.
  struct Stop {
    int rank;
    std::string error;  // why there is no model
  };
  const std::optional<Stop>& stop() const { return stop_; }

 private:
  RankSummary::Role role(int rank) const {
    return rank < settings_.workers ? RankSummary::Role::worker : RankSummary::Role::server;
  }
  void take_bytes(int rank, const nlohmann::json& event);

  Settings settings_;
  RunSummary progress_;               // as far as the lead has told
  std::optional<RunSummary> result_;  // what it told at the end
  std::optional<std::uint64_t> goal_step_;
  std::map<int, RankSummary> ranks_;  // what each has told of itself
  std::optional<Stop> stop_;
};

}  // namespace starling
