// Short names for runs that stand beside each other: they say in what the runs differ.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "report/run_data.h"

namespace starling {

// A run's settings by name, as text without quotes; empty if they are no TOML.
std::map<std::string, std::string> settings_of(const RunData& run);

// The folders' names without the time that `starling train` puts in front of them. Where several
// would be the same, the settings that tell them apart stand behind: "pairwise-4 period=16".
std::vector<std::string> run_labels(std::span<const RunData> runs);

// What the results are about: data or models that are not the same for all runs, in words for each,
// "data: mnist (3 runs), synthetic (1 run)". Empty if runs can be compared.
std::vector<std::string> unlike(std::span<const RunData> runs);
// Whether two runs learnt the same from the same.
bool alike(const RunData& one, const RunData& other);

}  // namespace starling
