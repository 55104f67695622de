// What the settings mean for decentral systems: who mixes with whom, how, and when.
#pragma once

#include <optional>

#include "mixing/mixing.h"
#include "strategy/schedule.h"
#include "strategy/settings.h"

namespace starling {

// Whether workers mix weights.
bool is_mix(const Settings& settings);
bool mixes_in_step(const Settings& settings);
GraphSettings graph_settings(const Settings& settings);
MixingSettings mixing_settings(const Settings& settings, const std::vector<Fold>& folds = {});
Schedule::Options schedule_options(const Settings& settings);

// How fast the graph brings the workers together: 1 is at once, 0 never. Nothing for so many
// workers that it would take long to find out.
std::optional<double> graph_gap(const Settings& settings);

// Throws Error, in one sentence, if the choices do not go together.
void check_mix(const Settings& settings);

}  // namespace starling
