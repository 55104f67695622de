// What the benchmarks share: running a contestant, ours or a peer's, and taking in the JSON lines
// it reports.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launch/launcher.h"

namespace starling {

// Throws Error, beginning with `who`, if it fails, and Interrupted on Ctrl-C.
void run_contestant(const LaunchPlan& plan, const std::string& who,
                    const std::function<void(const nlohmann::json&)>& on_report);

// A peer prints JSON lines, which a shell sends down the pipe that our workers report by.
std::vector<std::string> shell_reporting(const std::string& script);

// --lab, for a benchmark on hosts with slow links.
void add_lab_option(CLI::App& command, std::string& lab);
std::string network_description(const std::string& lab);

double median(std::vector<double> values);

}  // namespace starling
