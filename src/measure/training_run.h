// One training from start to finish: launches the workers, shows their progress, fills the run
// folder.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "job/run_summary.h"
#include "launch/launcher.h"
#include "measure/grid_progress.h"
#include "report/live_server.h"
#include "strategy/settings.h"

namespace starling {

struct TrainingPlan {
  Settings settings;
  std::filesystem::path run_folder;
  std::string label = "training";
  LaunchPlan launch = {};  // machines, rendezvous, secret, timeout, lab; the rest is filled in
  std::optional<LiveAddress> live = {};  // where to show it as it goes
  bool timeline = false;                 // whether to record one
  const GridProgress* grid = nullptr;    // what it is a run of
};

// Returns the summary; throws Error with the culprit's reason if the run fails, and Interrupted, once
// that has been said, on Ctrl-C.
RunSummary run_training(TrainingPlan plan);

}  // namespace starling
