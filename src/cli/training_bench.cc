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
#include "cli/ddp_peer.h"
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
  std::string lab;
  bool print_json = false;
};

double measure_starling(const TrainingBench& bench, const Settings& settings,
                        const std::filesystem::path& folder) {
  std::filesystem::remove_all(folder);
  TrainingPlan plan{settings, folder, "starling"};
  plan.launch.lab = bench.lab;
  const json summary = run_training(plan);
  std::filesystem::remove_all(folder);
  return summary["samples_per_second"];
}

double measure_ddp(const TrainingBench& bench, const Settings& settings) {
  LaunchPlan plan;
  plan.lab = bench.lab;
  return train_by_ddp(settings, plan, [](const json&) {})["samples_per_second"];
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
    ours.push_back(measure_starling(bench, settings, folder));
    ddp.push_back(measure_ddp(bench, settings));
  }
  const double ratio = median(ours) / median(ddp);
  if (bench.print_json) {
    fmt::print("{}\n", json{{"machine", machine_description()},
                            {"workers", settings.workers},
                            {"batch", settings.batch},
                            {"lab", bench.lab},
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
  fmt::print("mnist-cnn, {} workers, batch {} each, over {}, on {}\n\n{}\nstarling / DDP: {:.2f}\n",
             settings.workers, settings.batch, network_description(bench.lab),
             machine_description(), table.text(), ratio);
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
  add_lab_option(*training, command->lab);
  training->add_flag("--json", command->print_json, "print JSON");
  training->callback([command] { run_bench(*command); });
}

}  // namespace starling
