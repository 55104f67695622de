#include "cli/training_bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/units.h"
#include "cli/contestants.h"
#include "cli/machine.h"
#include "cli/settings_flags.h"
#include "cli/training_run.h"
#include "report/table.h"

namespace starling {

namespace {

using nlohmann::json;

struct TrainingBench {
  SettingsFlags settings;
  int rounds = 3;
  bool print_json = false;
};

double measure_starling(const Settings& settings, const std::filesystem::path& folder) {
  std::filesystem::remove_all(folder);
  const json summary = run_training({settings, folder, "starling", {}});
  std::filesystem::remove_all(folder);
  return summary["samples_per_second"];
}

double measure_ddp(const Settings& settings) {
  LaunchPlan plan;
  plan.command = shell_reporting(
      fmt::format("exec '{}' --data '{}' --workers {} --batch {} --epochs {} --lr {} --momentum {} "
                  "--seed {}",
                  sibling_program("starling-peer-ddp").string(), settings.data_folder,
                  settings.workers, settings.batch, std::max(1, static_cast<int>(settings.epochs)),
                  settings.lr, settings.momentum, settings.seed));
  double samples_per_second = 0;
  run_contestant(plan, "PyTorch DDP (`make bench` installs what it needs)", [&](const json& event) {
    samples_per_second = event.value("samples_per_second", 0.0);
  });
  return samples_per_second;
}

void run_bench(const TrainingBench& bench) {
  Settings settings = bench.settings.unchecked();
  settings.strategy = "allreduce";
  settings.model = "mnist-cnn";  // the one that the driver knows
  settings.data = "mnist";
  check_settings(settings);
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("starling-bench-{}", ::getpid());
  std::vector<double> ours, ddp;
  for (int round = 0; round < bench.rounds; ++round) {
    ours.push_back(measure_starling(settings, folder));
    ddp.push_back(measure_ddp(settings));
  }
  const double ratio = median(ours) / median(ddp);
  if (bench.print_json) {
    fmt::print("{}\n", json{{"machine", machine_description()},
                            {"workers", settings.workers},
                            {"batch", settings.batch},
                            {"starling_samples_per_second", ours},
                            {"ddp_samples_per_second", ddp},
                            {"ratio", ratio}}
                           .dump());
    return;
  }
  Table table({"who", "samples/s (median)", "rounds"});
  const auto row = [&](const char* who, const std::vector<double>& values) {
    std::vector<std::string> each;
    for (double value : values) each.push_back(format_count(value));
    table.add({who, format_count(median(values)), fmt::format("{}", fmt::join(each, " / "))});
  };
  row("starling, ring all-reduce", ours);
  row("PyTorch DDP over gloo", ddp);
  fmt::print("mnist-cnn, {} workers, batch {} each, on {}\n\n{}\nstarling / DDP: {:.2f}\n",
             settings.workers, settings.batch, machine_description(), table.text(), ratio);
}

}  // namespace

void add_training_bench(CLI::App& bench) {
  auto command = std::make_shared<TrainingBench>();
  CLI::App* training = bench.add_subcommand("training", "All-reduce training beside PyTorch DDP");
  training->footer("Example:\n  starling bench training --workers 4 --epochs 1");
  command->settings.add_to(*training, SettingsFlags::Which::all);
  training->add_option("--rounds", command->rounds, "both take turns so many times")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  training->add_flag("--json", command->print_json, "print JSON");
  training->callback([command] { run_bench(*command); });
}

}  // namespace starling
