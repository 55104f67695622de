// starling measure --grid systems: every named system on the same data, each with its own settings.
#include <fmt/format.h>

#include "base/units.h"
#include "measure/grids.h"
#include "measure/measured_run.h"
#include "strategy/systems.h"

namespace starling {

namespace {

using nlohmann::json;

constexpr double kGoal = 0.97;  // the accuracy that every system should reach

struct SystemRun {
  std::string name;
  Settings settings;
};

// All of them are checked before the first one runs.
std::vector<SystemRun> system_runs(const MeasureOptions& options) {
  Settings defaults;
  defaults.train.epochs = 5;
  std::vector<SystemRun> runs;
  for (const System& system : named_systems()) {
    Settings settings = defaults;
    read_settings(system.toml, "system " + system.name, settings);
    settings = options.settings_over(std::move(settings));
    settings.workers = options.workers.value_or(defaults.workers);  // all have as many
    check_settings(settings);
    runs.push_back({system.name, settings});
  }
  return runs;
}

json as_row(const std::string& name, const RunSummary& summary) {
  const double accuracy = summary.accuracy.value_or(0);
  json row = {
      {"system", name},
      {"accuracy", accuracy},
      {"reached_97", accuracy >= kGoal},
      {"train_seconds", summary.train_seconds.value_or(0)},
      {"samples_per_second", summary.samples_per_second.value_or(0)},
      {"sent_bytes_per_worker", summary.mean_of_workers(&RankSummary::wire_bytes_sent)},
      {"received_bytes_per_worker", summary.mean_of_workers(&RankSummary::wire_bytes_received)},
      {"sent_bytes_by_all", summary.sum(&RankSummary::wire_bytes_sent)},
      {"staleness_mean", json()},
      {"staleness_max", json()},
      {"gradients_dropped", json()}};
  if (const StalenessSummary* seen = summary.staleness()) {
    row["staleness_mean"] = seen->mean.value_or(0);
    row["staleness_max"] = seen->max.value_or(0);
  }
  if (summary.servers) row["gradients_dropped"] = summary.servers->gradients_dropped.value_or(0);
  row["waited_share"] =
      summary.mean_of_workers(&RankSummary::waited_seconds) / summary.train_seconds.value_or(1);
  return row;
}

// As people read it; what there is none of is a dash.
std::vector<std::string> as_text(const json& row) {
  const auto count = [&](const char* key) {
    return row[key].is_null() ? "-" : format_count(row[key]);
  };
  return {row["system"],
          fmt::format("{:.2f} %", row["accuracy"].get<double>() * 100),
          row["reached_97"].get<bool>() ? "yes" : "no",
          fmt::format("{:.1f} s", row["train_seconds"].get<double>()),
          format_count(row["samples_per_second"]),
          fmt::format("{:.0f} %", row["waited_share"].get<double>() * 100),
          format_bytes(row["sent_bytes_per_worker"]),
          format_bytes(row["received_bytes_per_worker"]),
          format_bytes(row["sent_bytes_by_all"]),
          row["staleness_mean"].is_null()
              ? "-"
              : fmt::format("{:.2f}", row["staleness_mean"].get<double>()),
          count("staleness_max"),
          count("gradients_dropped")};
}

}  // namespace

MeasuredGrid measure_systems(const MeasureOptions& options) {
  const std::vector<SystemRun> runs = system_runs(options);
  options.progress->expect(runs.size());
  Table table({"system", "accuracy", "97 %", "training", "samples/s", "waited", "sent per worker",
               "received per worker", "sent by all", "staleness mean", "staleness max", "dropped"});
  json rows = json::array();
  for (const SystemRun& run : runs) {
    rows.push_back(as_row(run.name, measured_run(options, run.settings, run.name)));
    table.add(as_text(rows.back()));
  }
  const Settings& any = runs.front().settings;
  return {
      .table = table,
      .rows = rows,
      .conditions = {{"workers", any.workers},
                     {"model", any.train.model},
                     {"data", name_of(any.train.data)},
                     {"epochs", any.train.epochs}},
      .headline =
          fmt::format("{} workers train {} on {} for {} epoch{}", any.workers, any.train.model,
                      any.train.data, any.train.epochs, any.train.epochs == 1 ? "" : "s"),
      .remarks =
          "Bytes are on the wire; what server processes send is in \"sent by all\". Staleness is "
          "of gradients,\n"
          "in updates, or of models mixed in, in steps; gradients are counted, and dropped, "
          "block by block. Waited is\n"
          "the share of its time that a worker spent in exchanges, on average."};
}

}  // namespace starling
