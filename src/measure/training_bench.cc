#include "measure/training_bench.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/temporary_folder.h"
#include "base/units.h"
#include "measure/ddp_peer.h"
#include "measure/machine.h"
#include "measure/training_run.h"

namespace starling {

namespace {

using nlohmann::json;

double measure_starling(const TrainingBench& bench, const std::filesystem::path& folder) {
  std::filesystem::remove_all(folder);
  TrainingPlan plan{bench.settings, folder, "starling"};
  plan.launch.lab = bench.lab;
  const RunSummary summary = run_training(plan);
  std::filesystem::remove_all(folder);
  return summary.samples_per_second.value_or(0);
}

double measure_ddp(const TrainingBench& bench) {
  LaunchPlan plan;
  plan.lab = bench.lab;
  return train_by_ddp(bench.settings, plan, [](const json&) {}).samples_per_second.value_or(0);
}

}  // namespace

BenchResult bench_training(TrainingBench bench) {
  Settings& settings = bench.settings;
  settings.strategy = StrategyKind::allreduce;
  settings.train.model = "mnist-cnn";  // the one that the driver knows
  settings.train.data = TrainSettings::Data::mnist;
  check_settings(settings);
  const TemporaryFolder folder;
  std::vector<double> ours, ddp;
  for (int round = 0; round < bench.rounds; ++round) {
    ours.push_back(measure_starling(bench, folder.path() / "run"));
    ddp.push_back(measure_ddp(bench));
  }
  const double ratio = median(ours) / median(ddp);
  Table table({"who", "samples/s (median)", "rounds"});
  const auto row = [&](const char* who, const std::vector<double>& values) {
    std::vector<std::string> each;
    for (double value : values) each.push_back(format_count(value));
    table.add({who, format_count(median(values)), fmt::format("{}", fmt::join(each, " / "))});
  };
  row("starling, ring all-reduce", ours);
  row("PyTorch DDP over gloo", ddp);
  const std::string machine = machine_description();
  return {.headline =
              fmt::format("mnist-cnn, {} workers, batch {} each, over {}, on {}", settings.workers,
                          settings.train.batch, network_description(bench.lab), machine),
          .table = table,
          .remarks = fmt::format("starling / DDP: {:.2f}", ratio),
          .numbers = {{"machine", machine},
                      {"workers", settings.workers},
                      {"batch", settings.train.batch},
                      {"lab", bench.lab},
                      {"starling_samples_per_second", ours},
                      {"ddp_samples_per_second", ddp},
                      {"ratio", ratio}}};
}

}  // namespace starling
