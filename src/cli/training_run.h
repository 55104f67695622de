// One training from start to finish: launches the workers, shows their progress, fills the run
// folder.
#pragma once

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "net/launcher.h"
#include "strategy/settings.h"

namespace starling {

struct TrainingPlan {
  Settings settings;
  std::filesystem::path run_folder;
  std::string label = "training";
  LaunchPlan launch;  // machines, rendezvous, secret, timeout; the rest is filled in
};

// Returns the summary; throws Error with the culprit's reason if the run fails, and the exit code
// (CLI::RuntimeError) on Ctrl-C.
nlohmann::json run_training(TrainingPlan plan);

// Adds the parameter servers that the settings ask for: processes that run `starling serve`.
void add_servers(const Settings& settings, LaunchPlan& plan);

// The program beside this one, e.g. starling-trainer.
std::filesystem::path sibling_program(const std::string& name);

}  // namespace starling
