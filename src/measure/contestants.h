// What the benchmarks share: running a contestant, ours or a peer's, taking in the JSON lines it
// reports, and what comes of it.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launch/launcher.h"
#include "report/table.h"

namespace starling {

// What a benchmark found, for people and for programs.
struct BenchResult {
  std::string headline;  // what was measured, and on what
  Table table;
  std::string remarks;  // how to read it
  nlohmann::json numbers;
};

// Throws Error, beginning with `who`, if it fails, and Interrupted on Ctrl-C.
void run_contestant(const LaunchPlan& plan, const std::string& who,
                    const std::function<void(const nlohmann::json&)>& on_report);

// A peer prints JSON lines, which a shell sends down the pipe that our workers report by.
std::vector<std::string> shell_reporting(const std::string& script);

// Of a benchmark in this lab, or in none.
std::string network_description(const std::string& lab);

double median(std::vector<double> values);

}  // namespace starling
