// Going on with a run that was interrupted: what its folder says, and what may be another now.
#pragma once

#include <filesystem>

#include "strategy/settings.h"

namespace starling {

// Of the run in that folder. Throws Error if there is none.
Settings settings_of_run(const std::filesystem::path& folder);

// Throws Error, in one sentence that names the setting, if that would be another training, or if the
// run has come to its end and nothing was added.
void check_resumed(const std::filesystem::path& folder, const Settings& then, const Settings& now);

// The manifest of the newest checkpoint that is whole; says which ones are not. Throws Error if there
// is none.
std::filesystem::path checkpoint_to_resume(const std::filesystem::path& folder);

bool has_checkpoint(const std::filesystem::path& folder);

inline constexpr const char* kCheckpointFolder = "checkpoints";

}  // namespace starling
