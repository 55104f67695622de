// starling measure: a grid of runs, measured alike and put side by side in one table.
#include <fmt/format.h>

#include <fstream>
#include <memory>
#include <numeric>

#include "base/error.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/paper_grid.h"
#include "cli/progress_bar.h"
#include "cli/settings_flags.h"
#include "cli/training_run.h"
#include "report/table.h"

namespace starling {

namespace {

using nlohmann::json;

struct MeasureCommand {
  std::string grid = "paper";
  SettingsFlags settings;
  std::string folder = "runs/measure-paper";
  bool print_json = false;
};

// The run's summary if it was finished before under the same settings.
std::optional<json> finished(const std::filesystem::path& folder, const Settings& settings) {
  std::ifstream summary(folder / "summary.json");
  std::ifstream before(folder / "settings.toml");
  if (!summary || !before) return std::nullopt;
  const std::string text((std::istreambuf_iterator<char>(before)),
                         std::istreambuf_iterator<char>());
  if (text != write_settings(settings)) {
    throw Error(fmt::format("{} was measured with other settings", folder.string()),
                "choose another --folder, or remove that one");
  }
  const json result = json::parse(summary, nullptr, false);
  if (!result.is_object()) return std::nullopt;
  return result;
}

double total(const json& per_worker) {
  double sum = 0;
  for (const json& each : per_worker) sum += each.get<double>();
  return sum;
}

// What is not sent of what the baseline sends; negative if more is.
std::string saving(double bytes, double baseline) {
  return fmt::format("{:.1f} %", (1 - bytes / baseline) * 100 + 0.0);
}

void measure_paper(const MeasureCommand& command) {
  Settings common = command.settings.unchecked();
  const auto grid = paper_grid();
  std::vector<json> results;
  for (std::size_t i = 0; i < grid.size(); ++i) {
    const PaperRow& row = grid[i];
    Settings settings = common;
    settings.workers = row.workers;
    settings.strategy = row.passes == row.workers ? "allreduce" : "pairwise";
    settings.passes = row.passes == row.workers ? 1 : row.passes;
    settings.epochs = row.iterations;
    settings.evaluate_every = 0;  // on so few samples, evaluating would take longer than training
    check_settings(settings);
    const std::filesystem::path folder =
        std::filesystem::path(command.folder) /
        fmt::format("workers-{}-passes-{}-iterations-{}", row.workers, row.passes, row.iterations);
    std::optional<json> result = finished(folder, settings);
    if (!result) {
      const std::string label =
          fmt::format("[{}/{}] {} workers, {} passes", i + 1, grid.size(), row.workers, row.passes);
      result = run_training({settings, folder, label, {}});
    }
    results.push_back(*result);
  }

  Table table({"workers", "passes", "iterations", "network", "saving", "per iteration", "accuracy",
               "paper's network", "its saving", "its accuracy"});
  json rows = json::array();
  double our_baseline = 1, our_per_iteration = 1, paper_baseline = 1;
  for (std::size_t i = 0; i < grid.size(); ++i) {
    const PaperRow& row = grid[i];
    // As the paper counts: sent and received, by everybody.
    const double bytes =
        total(results[i]["wire_bytes_sent"]) + total(results[i]["wire_bytes_received"]);
    if (row.passes == row.workers) {
      our_baseline = bytes;
      our_per_iteration = bytes / row.iterations;
      paper_baseline = row.terabytes;
    }
    const double accuracy = results[i]["accuracy"];
    table.add({std::to_string(row.workers),
               row.passes == row.workers ? fmt::format("{} (all)", row.passes)
                                         : std::to_string(row.passes),
               std::to_string(row.iterations), format_bytes(bytes), saving(bytes, our_baseline),
               saving(bytes / row.iterations, our_per_iteration),
               fmt::format("{:.2f} %", accuracy * 100), fmt::format("{:.2f} TB", row.terabytes),
               saving(row.terabytes, paper_baseline), fmt::format("{:.2f} %", row.accuracy * 100)});
    rows.push_back({{"workers", row.workers},
                    {"passes", row.passes},
                    {"iterations", row.iterations},
                    {"network_bytes", bytes},
                    {"saving", 1 - bytes / our_baseline},
                    {"saving_per_iteration", 1 - bytes / row.iterations / our_per_iteration},
                    {"accuracy", accuracy},
                    {"paper_terabytes", row.terabytes},
                    {"paper_saving", 1 - row.terabytes / paper_baseline},
                    {"paper_accuracy", row.accuracy}});
  }
  const std::filesystem::path folder = command.folder;
  std::ofstream(folder / "table.md") << table.markdown();
  std::ofstream(folder / "table.csv") << table.csv();
  std::ofstream(folder / "table.json") << rows.dump(2) << "\n";
  if (command.print_json) {
    fmt::print("{}\n", json{{"grid", "paper"}, {"folder", command.folder}, {"rows", rows}}.dump());
  } else {
    fmt::print("{}\nsaved as {}/table.md, .csv and .json\n", table.text(), command.folder);
  }
}

}  // namespace

void add_measure_command(CLI::App& app) {
  auto command = std::make_shared<MeasureCommand>();
  CLI::App* measure =
      app.add_subcommand("measure", "Run a grid of settings and compare them in a table");
  measure->footer(
      "paper: the grid of the pair-wise averaging paper's table 2: 2 to 6 workers, passes from all "
      "down to 1,\n"
      "with more iterations (epochs over --samples) the fewer the passes. What was measured before "
      "is kept:\n"
      "interrupt it, call it again, and it goes on.\n\n"
      "Example:\n"
      "  starling measure --grid paper --samples 3000 --model cnn3");
  measure->add_option("--grid", command->grid, "which grid: paper")
      ->check(CLI::IsMember({"paper"}))
      ->capture_default_str();
  measure->add_option("--folder", command->folder, "where the runs and the table go")
      ->capture_default_str();
  command->settings.add_to(*measure, SettingsFlags::Which::training_only);
  measure->add_flag("--json", command->print_json, "print the table as one JSON object, last");
  measure->callback([command] { measure_paper(*command); });
}

}  // namespace starling
