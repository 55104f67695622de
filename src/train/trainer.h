// The built-in training loop: one worker of `starling train`.
#pragma once

#include <filesystem>

#include "job/job.h"
#include "strategy/settings.h"
#include "train/learner.h"

namespace starling {

// Trains as the settings say and reports to the launcher: progress, evaluations, network activity
// and, from the lead (the lowest rank that is left), the result. The lead leaves the final model in
// the run folder.
void train(const Settings& settings, const Job& job, const std::filesystem::path& run_folder,
           Workshop& workshop);

}  // namespace starling
