// The grids of `starling measure`, one file each, and what they share. A grid is a set of runs that
// end side by side in one table.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/grid_progress.h"
#include "cli/settings_flags.h"
#include "report/plot.h"
#include "report/table.h"

namespace starling {

// What the command line asks for; only what goes with the grid is set.
struct MeasureOptions {
  SettingsFlags settings;
  std::filesystem::path folder;  // each run has its own in it
  std::optional<int> workers;
  std::optional<std::string> slow;
  std::string lab;                   // each run in one of its own, see launch/lab.h
  GridProgress* progress = nullptr;  // the grid says how many runs it expects
};

struct MeasuredGrid {
  Table table;
  nlohmann::json rows;                                   // the same, as numbers
  nlohmann::json conditions = nlohmann::json::object();  // what holds for all rows
  std::string headline = {};                             // what was measured,
  std::string remarks = {};                              // and what is to be seen in the table
  std::optional<Plot> plot = {};
};

// The pair-wise averaging paper's table 2, repeated.
MeasuredGrid measure_paper(const MeasureOptions& options);
// Every named system on the same data.
MeasuredGrid measure_systems(const MeasureOptions& options);
// Bytes against accuracy of pairwise averaging, over its settings.
MeasuredGrid measure_tradeoff(const MeasureOptions& options);
// Who reaches an accuracy first over slow links, PyTorch DDP among them.
MeasuredGrid measure_race(const MeasureOptions& options);
// What each schedule makes of one slow worker, in the simulator.
MeasuredGrid measure_slow(const MeasureOptions& options);

// The summary of a training in the folder of that name: trains, unless it was finished there before
// under the same settings; by PyTorch DDP if that is asked for.
nlohmann::json measured_run(const MeasureOptions& options, const Settings& settings,
                            const std::string& name, bool by_ddp = false);

double total(const nlohmann::json& per_worker);
double mean(const nlohmann::json& per_worker);

}  // namespace starling
