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
  defaults.epochs = 5;
  std::vector<SystemRun> runs;
  for (const System& system : named_systems()) {
    Settings settings = defaults;
    read_settings(system.toml, "system " + system.name, settings);
    settings = options.settings_over(std::move(settings));
    if (options.workers) settings.workers = *options.workers;
    check_settings(settings);
    runs.push_back({system.name, settings});
  }
  return runs;
}

// Servers stand behind the workers in every list.
double mean_of_workers(const json& summary, const char* key) {
  json workers = json::array();
  for (std::size_t i = 0; i < summary["worker_rank"].size(); ++i) {
    workers.push_back(summary[key][i]);
  }
  return mean(workers);
}

json as_row(const std::string& name, const json& summary) {
  json row = {{"system", name},
              {"accuracy", summary["accuracy"]},
              {"reached_97", summary["accuracy"].get<double>() >= kGoal},
              {"train_seconds", summary["train_seconds"]},
              {"samples_per_second", summary["samples_per_second"]},
              {"sent_bytes_per_worker", mean_of_workers(summary, "wire_bytes_sent")},
              {"received_bytes_per_worker", mean_of_workers(summary, "wire_bytes_received")},
              {"sent_bytes_by_all", total(summary["wire_bytes_sent"])}};
  const json seen = summary.value("servers", summary.value("mixing", json::object()));
  for (const char* key : {"staleness_mean", "staleness_max", "gradients_dropped"}) {
    row[key] = seen.value(key, json());
  }
  const double waited = mean(summary["waited_seconds"]);
  row["waited_share"] = waited / summary["train_seconds"].get<double>();
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
                     {"model", any.model},
                     {"data", any.data},
                     {"epochs", any.epochs}},
      .headline = fmt::format("{} workers train {} on {} for {} epoch{}", any.workers, any.model,
                              any.data, any.epochs, any.epochs == 1 ? "" : "s"),
      .remarks =
          "Bytes are on the wire; what server processes send is in \"sent by all\". Staleness is "
          "of gradients,\n"
          "in updates, or of models mixed in, in steps; gradients are counted, and dropped, "
          "block by block. Waited is\n"
          "the share of its time that a worker spent in exchanges, on average."};
}

}  // namespace starling
