// The grids of `starling measure`, one file each. A grid is a set of runs that end side by side in
// one table.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "measure/grid_progress.h"
#include "report/plot.h"
#include "report/table.h"
#include "strategy/settings.h"

namespace starling {

// What is asked for; only what goes with the grid is set.
struct MeasureOptions {
  // The settings that are asked for, over the grid's own defaults; the grid checks them.
  std::function<Settings(Settings defaults)> settings_over;
  std::filesystem::path folder;  // each run has its own in it
  std::optional<int> workers;
  std::optional<std::string> slow;
  std::vector<std::string> only;     // of all that it compares; none: all
  int seeds = 1;                     // each setting is trained from so many
  std::string lab;                   // each run in one of its own, see launch/lab.h
  GridProgress* progress = nullptr;  // the grid says how many runs it expects
};

struct MeasuredGrid {
  // A further table of the same runs, which is saved under its own name.
  struct Part {
    std::string name;
    std::string headline;
    Table table;
    nlohmann::json rows = nlohmann::json::array();
    std::optional<Plot> plot = {};
  };

  Table table;
  nlohmann::json rows;                                   // the same, as numbers
  nlohmann::json conditions = nlohmann::json::object();  // what holds for all rows
  std::string headline = {};                             // what was measured,
  std::string remarks = {};                              // and what is to be seen in the table
  std::optional<Plot> plot = {};
  std::vector<Part> parts = {};

  std::string text() const;      // all in words, for a terminal
  std::string markdown() const;  // and for a page
};

// The pair-wise averaging paper's tables and its figure, repeated for all that "passes" may mean.
MeasuredGrid measure_paper(const MeasureOptions& options);
// Under which conditions one pass collapses as it does in that figure.
MeasuredGrid measure_collapse(const MeasureOptions& options);
// Every named system on the same data.
MeasuredGrid measure_systems(const MeasureOptions& options);
// Which share of what exchanging is worth is kept, for how many bytes.
MeasuredGrid measure_tradeoff(const MeasureOptions& options);
// What every codec costs, and what is learned through it.
MeasuredGrid measure_codecs(const MeasureOptions& options);
// Who reaches a goal first over slow links, PyTorch DDP among them.
MeasuredGrid measure_race(const MeasureOptions& options);
// What each schedule makes of one slow worker, in the simulator.
MeasuredGrid measure_slow(const MeasureOptions& options);

// What it takes every named system to get to a goal, each at its best learning rate.
MeasuredGrid measure_time_to_accuracy(const MeasureOptions& options);
// The best learning rate against the number of workers.
MeasuredGrid measure_rates(const MeasureOptions& options);
// The survey's seven criteria, measured for every named system.
MeasuredGrid measure_criteria(const MeasureOptions& options);

struct Grid {
  const char* name;
  MeasuredGrid (*measure)(const MeasureOptions&);
  // Which options go with it.
  bool takes_settings;
  bool takes_workers;
  bool takes_slow = false;
  bool takes_only = false;
  int seeds = 1;  // by default
};

inline constexpr Grid kGrids[] = {
    {.name = "paper",
     .measure = measure_paper,
     .takes_settings = true,
     .takes_workers = false,
     .takes_only = true,
     .seeds = 5},
    {.name = "collapse",
     .measure = measure_collapse,
     .takes_settings = true,
     .takes_workers = true,
     .takes_only = true,
     .seeds = 3},
    {.name = "systems",
     .measure = measure_systems,
     .takes_settings = true,
     .takes_workers = true,
     .takes_only = true},
    {.name = "tradeoff",
     .measure = measure_tradeoff,
     .takes_settings = true,
     .takes_workers = true,
     .takes_only = true},
    {.name = "codecs",
     .measure = measure_codecs,
     .takes_settings = true,
     .takes_workers = true,
     .takes_only = true},
    {.name = "race",
     .measure = measure_race,
     .takes_settings = true,
     .takes_workers = true,
     .takes_only = true},
    {.name = "time-to-accuracy",
     .measure = measure_time_to_accuracy,
     .takes_settings = true,
     .takes_workers = true,
     .takes_only = true},
    {.name = "rates",
     .measure = measure_rates,
     .takes_settings = true,
     .takes_workers = false,
     .takes_only = true},
    {.name = "criteria",
     .measure = measure_criteria,
     .takes_settings = true,
     .takes_workers = true,
     .takes_only = true},
    {.name = "slow",
     .measure = measure_slow,
     .takes_settings = false,
     .takes_workers = true,
     .takes_slow = true},
};

// Of a grid where no --folder says otherwise: "runs/measure-GRID", and behind it the model, the data and
// the lab that are asked for, if other than by default, so that no two grids share their runs.
std::filesystem::path default_folder(const Grid& grid, const MeasureOptions& options);

// Leaves the table, its plot and a report on all runs in the options' folder.
MeasuredGrid measure_and_save(const Grid& grid, const MeasureOptions& options);

}  // namespace starling
