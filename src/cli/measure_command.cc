// starling measure: a grid of runs, measured alike and put side by side in one table.
#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "base/whole_file.h"
#include "cli/command.h"
#include "cli/ddp_peer.h"
#include "cli/measure_grids.h"
#include "cli/training_run.h"
#include "report/progress_bar.h"
#include "report/run_folder.h"
#include "report/run_report.h"

namespace starling {

namespace {

using nlohmann::json;

struct Grid {
  const char* name;
  MeasuredGrid (*measure)(const MeasureOptions&);
  // Which options go with it.
  bool takes_settings;
  bool takes_workers;
  bool takes_slow;
};

constexpr Grid kGrids[] = {
    {.name = "paper",
     .measure = measure_paper,
     .takes_settings = true,
     .takes_workers = false,
     .takes_slow = false},
    {.name = "systems",
     .measure = measure_systems,
     .takes_settings = true,
     .takes_workers = true,
     .takes_slow = false},
    {.name = "tradeoff",
     .measure = measure_tradeoff,
     .takes_settings = true,
     .takes_workers = true,
     .takes_slow = false},
    {.name = "race",
     .measure = measure_race,
     .takes_settings = true,
     .takes_workers = true,
     .takes_slow = false},
    {.name = "slow",
     .measure = measure_slow,
     .takes_settings = false,
     .takes_workers = true,
     .takes_slow = true},
};

struct MeasureCommand {
  std::string grid = "paper";
  MeasureOptions options;
  std::string folder;
  bool print_json = false;
};

// The run's summary if it was finished before under the same settings, in such a lab.
std::optional<json> finished(const std::filesystem::path& folder, const Settings& settings,
                             const std::string& lab) {
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
  if (result.value("lab", "") != lab) {
    throw Error(fmt::format("{} was measured with other links", folder.string()),
                "choose another --folder, or remove that one");
  }
  return result;
}

void check_options(const Grid& grid, const MeasureOptions& options) {
  const auto refuse = [&](const std::string& flag) {
    throw Error(fmt::format("{} does not go with --grid {}", flag, grid.name), "leave it out");
  };
  if (options.workers && !grid.takes_workers) refuse("--workers");
  if (options.slow && !grid.takes_slow) refuse("--slow");
  if (!options.lab.empty() && grid.takes_slow) refuse("--lab");
  if (const auto flag = options.settings.any_flag(); flag && !grid.takes_settings) refuse(*flag);
}

std::string paragraph(const std::string& text) { return text.empty() ? "" : text + "\n\n"; }

void save(const MeasuredGrid& measured, const std::filesystem::path& folder) {
  const auto write = [&](const char* name, const std::string& text) {
    write_whole_file(folder / name, text);
  };
  std::error_code shown_by_write;
  std::filesystem::create_directories(folder, shown_by_write);
  write("table.md", paragraph(measured.headline) + measured.table.markdown() +
                        (measured.remarks.empty() ? "" : "\n" + measured.remarks + "\n"));
  write("table.csv", measured.table.csv());
  write("table.json", measured.rows.dump(2) + "\n");
  if (measured.plot) {
    const std::string svg = measured.plot->svg();
    write("plot.svg", svg);
    write_png(svg, folder / "plot.png");
  }
}

void report_all(const GridProgress& progress, const std::filesystem::path& folder) {
  std::vector<RunData> runs;
  for (const std::filesystem::path& run : progress.done()) runs.push_back(read_run(run));
  write_report(report_on(runs, 0), folder / "report");
}

MeasuredGrid measured_or_kept(const Grid& grid, const MeasureOptions& options) {
  try {
    return grid.measure(options);
  } catch (const Interrupted&) {
    fmt::print(stderr, "{} runs are kept in {}; the same command goes on from there\n",
               options.progress->done().size(), options.folder.string());
    throw;
  }
}

void measure_grid(MeasureCommand& command) {
  const Grid& grid =
      *std::ranges::find_if(kGrids, [&](const Grid& each) { return command.grid == each.name; });
  check_options(grid, command.options);
  if (command.folder.empty()) {
    const std::string& lab = command.options.lab;
    command.folder = fmt::format("runs/measure-{}{}", grid.name, lab.empty() ? "" : "-" + lab);
  }
  command.options.folder = command.folder;
  GridProgress progress(grid.name);
  command.options.progress = &progress;
  const MeasuredGrid measured = measured_or_kept(grid, command.options);
  save(measured, command.folder);
  if (!progress.done().empty()) report_all(progress, command.folder);
  if (command.print_json) {
    json result = measured.conditions;
    result.update({{"grid", grid.name}, {"folder", command.folder}, {"rows", measured.rows}});
    fmt::print("{}\n", result.dump());
  } else {
    fmt::print("{}{}\n{}saved as {}/table.md, .csv and .json{}\n", paragraph(measured.headline),
               measured.table.text(), paragraph(measured.remarks), command.folder,
               measured.plot ? ", plot.svg and .png" : "");
    if (!progress.done().empty()) {
      fmt::print("the runs beside each other: {}/report/index.html\n", command.folder);
    }
  }
}

}  // namespace

namespace {

// As a run of ours leaves it, so that reports show both.
json run_ddp(const TrainingPlan& plan) {
  RunFolder folder(plan.run_folder, plan.settings);
  ProgressBar bar(plan.grid->name());
  bar.show(plan.grid->share(0), plan.grid->describe(0));
  json summary = train_by_ddp(plan.settings, plan.launch, [&](const json& event) {
    folder.record(0, event);
    const double share = number_in(event, "step") / std::max(1.0, number_in(event, "steps"));
    bar.show(plan.grid->share(share), plan.grid->describe(share));
  });
  // The only count there is, and only in a lab.
  if (summary.contains("kernel_bytes_sent")) {
    summary["wire_bytes_sent"] = summary["kernel_bytes_sent"];
  }
  if (!plan.launch.lab.empty()) summary["lab"] = plan.launch.lab;
  folder.finish(summary);
  return summary;
}

}  // namespace

json measured_run(const MeasureOptions& options, const Settings& settings, const std::string& name,
                  bool by_ddp) {
  const std::filesystem::path folder = options.folder / name;
  if (const auto before = finished(folder, settings, options.lab)) {
    options.progress->end(folder, true);
    return *before;
  }
  TrainingPlan plan{settings, folder, name};
  plan.launch.lab = options.lab;
  if (!options.lab.empty()) plan.launch.timeout = std::chrono::minutes(10);  // links are slow
  plan.grid = options.progress;
  options.progress->begin(name);
  try {
    const json summary = by_ddp ? run_ddp(plan) : run_training(plan);
    options.progress->end(folder);
    return summary;
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", name, error.what()));
  }
}

double total(const json& per_worker) {
  double sum = 0;
  for (const json& each : per_worker) sum += each.get<double>();
  return sum;
}

double mean(const json& per_worker) {
  return total(per_worker) / static_cast<double>(per_worker.size());
}

void add_measure_command(CLI::App& app) {
  auto command = std::make_shared<MeasureCommand>();
  CLI::App* measure =
      app.add_subcommand("measure", "Run a grid of settings and compare them in a table");
  measure->footer(
      "paper: the grid of the pair-wise averaging paper's table 2: 2 to 6 workers, passes from all "
      "down to 1,\n"
      "with more iterations (epochs over --samples) the fewer the passes.\n"
      "systems: every named system on the same data, each with its own settings where no flag says "
      "otherwise;\n"
      "5 epochs unless --epochs is given.\n"
      "tradeoff: pairwise averaging over passes, periods, codecs and mixing steps at 6 workers, "
      "bytes "
      "against\naccuracy, drawn; about 40 runs.\n"
      "race: time to 97 % (--until) of PyTorch DDP, all-reduce and pairwise averaging; meant for "
      "--lab.\n"
      "slow: in the simulator, what each schedule makes of one slow worker; takes seconds.\n"
      "What was measured before is kept: interrupt it, call it again, and it goes on.\n\n"
      "Example:\n"
      "  starling measure --grid paper --samples 3000 --model cnn3\n"
      "  starling measure --grid systems --epochs 3\n"
      "  sudo starling measure --grid race --lab 10mbit\n"
      "  starling measure --grid slow --workers 8 --slow 0:10");
  std::vector<std::string> names;
  for (const Grid& grid : kGrids) names.emplace_back(grid.name);
  measure->add_option("--grid", command->grid, "which grid: paper, systems, tradeoff, race or slow")
      ->check(CLI::IsMember(names))
      ->capture_default_str();
  measure->add_option("--folder", command->folder,
                      "where the runs and the table go; by default runs/measure-GRID-LAB");
  measure
      ->add_option("--workers", command->options.workers,
                   "all but paper: how many workers; by default 4 (tradeoff: 6)")
      ->check(CLI::Range(1, 4096));
  measure->add_option("--slow", command->options.slow,
                      "slow: which worker is slow, and how many times; by default 3:5");
  measure->add_option("--lab", command->options.lab,
                      "each run on hosts of their own with slow links, e.g. 100mbit; needs root");
  command->options.settings.add_to(*measure, SettingsFlags::Which::training_only);
  measure->add_flag("--json", command->print_json, "print the table as one JSON object, last");
  measure->callback([command] { measure_grid(*command); });
}

}  // namespace starling
