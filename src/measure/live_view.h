// Where a run can be watched as it goes, if anybody asked for that.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "measure/run_bar.h"
#include "measure/training_run.h"
#include "report/live_run.h"
#include "report/live_server.h"

namespace starling {

class LiveView {
 public:
  // Says where, above the bar.
  LiveView(const TrainingPlan& plan, bool own_program, RunBar& bar);

  void take(int rank, const nlohmann::json& event) {
    if (run_) run_->take(rank, event);
  }
  void take_end(int rank, const std::string& reason) {
    if (run_) run_->take_end(rank, reason);
  }
  void finish(const std::string& error) {
    if (run_) run_->finish(error);
  }
  void sum_up(const RunSummary& summary) {
    if (run_) run_->sum_up(summary);
  }

 private:
  std::optional<LiveRun> run_;
  std::optional<LiveServer> server_;  // the first to go
};

}  // namespace starling
