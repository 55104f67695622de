// One training from start to finish: launches the workers, of the built-in trainer or of a program of
// the user's own, shows their progress, fills the run folder.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "base/error.h"
#include "job/run_summary.h"
#include "launch/launcher.h"
#include "measure/grid_progress.h"
#include "report/live_server.h"
#include "strategy/settings.h"

namespace starling {

struct TrainingPlan {
  Settings settings;
  std::filesystem::path
      run_folder;  // empty: none, which only a program of one's own can do without
  std::string label = "training";
  LaunchPlan launch = {};  // machines, rendezvous, secret, timeout, lab; the rest is filled in
  std::optional<LiveAddress> live = {};  // where to show it as it goes
  bool timeline = false;                 // whether to record one
  std::filesystem::path resume = {};   // the manifest of the checkpoint to go on from; empty: none
  const GridProgress* grid = nullptr;  // what it is a run of
  std::optional<int> victim = {};      // a rank that is killed when a third of the steps are done
};

// A training that had begun did not come to its end. Whoever compares many passes over it; one that
// could not even begin (no data, no such program) would stop all the others alike.
class TrainingBroke : public Error {
 public:
  using Error::Error;
};

// Returns the summary; throws Error with the culprit's reason if the run fails, TrainingBroke if it had
// begun by then, and Interrupted, once that has been said, on Ctrl-C. All leave a summary that says so,
// and the last model. Where the workers have left others that go on, there is no result, and no error.
RunSummary run_training(TrainingPlan plan);

// Of a run whose final model falls short of its goal: why, and what to do, in one line.
std::string describe_missed(const Target& goal, const RunSummary& summary);

struct ProgramRun {
  RunSummary summary;
  LaunchResult outcome;
};

// How a run ended that did not come to its end, in one line.
std::string describe_end(const RunSummary& summary);

// Runs the program that plan.launch.command names, its workers counted by the settings. The summary
// has what those on this machine have told, whether they came to their end or not.
ProgramRun run_program(TrainingPlan plan);

}  // namespace starling
