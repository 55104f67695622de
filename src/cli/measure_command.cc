// starling measure: a grid of runs, measured alike and put side by side in one table.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "cli/command.h"
#include "cli/settings_flags.h"
#include "launch/launcher.h"
#include "measure/grids.h"

namespace starling {

namespace {

struct MeasureCommand {
  std::string grid = "paper";
  SettingsFlags settings;
  MeasureOptions options;
  std::optional<int> seeds;
  std::string folder;
  bool print_json = false;
};

void check_flags(const Grid& grid, const MeasureCommand& command) {
  const auto refuse = [&](const std::string& flag) {
    throw Error(fmt::format("{} does not go with --grid {}", flag, grid.name), "leave it out");
  };
  const MeasureOptions& options = command.options;
  if (options.workers && !grid.takes_workers) refuse("--workers");
  if (options.slow && !grid.takes_slow) refuse("--slow");
  if (!options.only.empty() && !grid.takes_only) refuse("--only");
  if (command.seeds && grid.takes_slow) refuse("--seeds");
  if (!options.lab.empty() && grid.takes_slow) refuse("--lab");
  if (const auto flag = command.settings.any_flag(); flag && !grid.takes_settings) refuse(*flag);
}

MeasuredGrid measured_or_kept(const Grid& grid, const MeasureOptions& options) {
  try {
    return measure_and_save(grid, options);
  } catch (const Interrupted&) {
    fmt::print(stderr, "{} runs are kept in {}; the same command goes on from there\n",
               options.progress->done().size(), options.folder.string());
    throw;
  }
}

void measure_grid(MeasureCommand& command) {
  const Grid& grid =
      *std::ranges::find_if(kGrids, [&](const Grid& each) { return command.grid == each.name; });
  check_flags(grid, command);
  GridProgress progress(grid.name);
  command.options.seeds = command.seeds.value_or(grid.seeds);
  command.options.progress = &progress;
  command.options.settings_over = [&flags = command.settings](Settings defaults) {
    return flags.unchecked(std::move(defaults));
  };
  if (command.folder.empty()) command.folder = default_folder(grid, command.options).string();
  command.options.folder = command.folder;
  const MeasuredGrid measured = measured_or_kept(grid, command.options);
  if (command.print_json) {
    nlohmann::json result = measured.conditions;
    result.update({{"grid", grid.name}, {"folder", command.folder}, {"rows", measured.rows}});
    fmt::print("{}\n", result.dump());
  } else {
    fmt::print("{}saved as {}/table.md, .csv and .json{}\n", measured.text(), command.folder,
               measured.plot ? ", plot.svg and .png" : "");
    for (const MeasuredGrid::Part& part : measured.parts) {
      fmt::print("and {}/{}.md, .csv and .json{}\n", command.folder, part.name,
                 part.plot ? ", .svg and .png" : "");
    }
    if (!progress.done().empty()) {
      fmt::print("the runs beside each other: {}/report/index.html\n", command.folder);
    }
  }
}

}  // namespace

void add_measure_command(CLI::App& app) {
  auto command = std::make_shared<MeasureCommand>();
  CLI::App* measure =
      app.add_subcommand("measure", "Run a grid of settings and compare them in a table");
  measure->footer(
      "paper: the pair-wise averaging paper's tables 1 and 2 and its figure 3: 2 to 6 workers, 1\n"
      "to all passes in every sense of the word, 12 to 27 iterations (epochs over --samples);\n"
      "980 short runs, about an hour and a half on 2 cores.\n"
      "collapse: under which conditions (samples, momentum, learning rate) one pass collapses as\n"
      "in its figure 3, with an epoch or a step an iteration; 288 short runs.\n"
      "systems: every named system on the same data, each with its own settings where no flag says "
      "otherwise.\n"
      "tradeoff: between workers that never talk and all-reduce lies a gap; which share of it each "
      "setting\nrecovers, for how many times fewer bytes, drawn.\n"
      "codecs: what is learned through each codec, with feedback and without, and its bytes, time "
      "and memory.\n"
      "race: time to the goal (--until) of PyTorch DDP, all-reduce and pairwise averaging; meant "
      "for "
      "--lab.\n"
      "time-to-accuracy: time, steps, samples and bytes to the goal for every named system, at the "
      "best of four\nlearning rates for each.\n"
      "rates: steps to the goal over learning rates with 1, 2, 4 and 8 workers: the best rate "
      "against their number.\n"
      "criteria: the survey's criteria for every named system: convergence, stragglers, network, "
      "utilisation,\nreproducibility, learning rates, and what happens when a worker or a server "
      "is "
      "killed.\n"
      "slow: in the simulator, what each schedule makes of one slow worker; takes seconds.\n"
      "All but paper, collapse and slow also take --model char-gpt --data kjv, which is measured "
      "in bits per "
      "character, and\n--model resnet --data fashion-mnist; docs/beyond_mnist.md has what each is "
      "trained for.\n"
      "What was measured before is kept: interrupt it, call it again, and it goes on.\n\n"
      "Example:\n"
      "  sudo starling measure --grid paper --lab 1gbit\n"
      "  starling measure --grid systems --epochs 3\n"
      "  sudo starling measure --grid race --lab 10mbit\n"
      "  starling measure --grid tradeoff --model char-gpt --data kjv --seeds 5\n"
      "  starling measure --grid criteria --only horovod,pairwise,petuum\n"
      "  starling measure --grid slow --workers 8 --slow 0:10");
  std::vector<std::string_view> names;
  for (const Grid& grid : kGrids) names.emplace_back(grid.name);
  measure->add_option("--grid", command->grid, "which grid: " + listed(names, " or "))
      ->check(CLI::IsMember(names))
      ->capture_default_str();
  measure->add_option("--folder", command->folder,
                      "where the runs and the table go; by default runs/measure-GRID, and -MODEL, "
                      "-DATA and -LAB behind it where they are asked for");
  measure
      ->add_option(
          "--workers", command->options.workers,
          "all but paper and rates: how many workers; by default 4 (tradeoff on images: 6, "
          "collapse: 5)")
      ->check(CLI::Range(1, 4096));
  measure
      ->add_option("--seeds", command->seeds,
                   "all but slow: from how many seeds each setting is trained, counted on from "
                   "--seed; by default 1 (paper: 5, collapse: 3)")
      ->check(CLI::Range(1, 1000));
  measure
      ->add_option("--only", command->options.only,
                   "all but slow: only these of those that it compares, e.g. horovod,pairwise; "
                   "paper: table1, table2, figure3, counters; collapse: 500, 1000, 2000, steps")
      ->delimiter(',');
  measure->add_option("--slow", command->options.slow,
                      "slow: which worker is slow, and how many times; by default 3:5");
  measure->add_option("--lab", command->options.lab,
                      "each run on hosts of their own with slow links, e.g. 100mbit; needs root");
  command->settings.add_to(*measure, SettingsFlags::Which::training_only);
  measure->add_flag("--json", command->print_json, "print the table as one JSON object, last");
  measure->callback([command] { measure_grid(*command); });
}

}  // namespace starling
