// Parameter servers as processes of their own.
#pragma once

#include "launch/launcher.h"
#include "strategy/settings.h"

namespace starling {

// Adds those that the settings ask for, each a `starling serve`, whether the job survives losses, and
// where in a grid each worker stands.
void add_servers(const Settings& settings, LaunchPlan& plan);

}  // namespace starling
