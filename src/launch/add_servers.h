// Parameter servers as processes of their own.
#pragma once

#include "launch/launcher.h"
#include "strategy/settings.h"

namespace starling {

// Adds those that the settings ask for, each a `starling serve`, and whether the job survives losses.
void add_servers(const Settings& settings, LaunchPlan& plan);

}  // namespace starling
