// starling measure --grid systems: every named system on the same data, each with its own settings.
#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "measure/broken.h"
#include "measure/chosen.h"
#include "measure/grids.h"
#include "measure/reached.h"
#include "measure/subject.h"
#include "strategy/systems.h"

namespace starling {

namespace {

using nlohmann::json;

struct SystemRun {
  std::string name;
  Settings settings;
};

// All of them are checked before the first one runs.
std::vector<SystemRun> system_runs(const Subject& subject, const MeasureOptions& options) {
  std::vector<SystemRun> runs;
  for (const System& system : chosen(named_systems(), options.only)) {
    const Settings settings = subject.settings_of(system, options.workers.value_or(4));
    check_settings(settings);
    runs.push_back({system.name, settings});
  }
  return runs;
}

// Means over the seeds; what is the most of some is the most of all.
json as_row(const std::string& name, const Subject& subject, const std::vector<RunSummary>& runs) {
  const auto mean = [&](auto number) { return sample_of(runs, number).mean(); };
  const Sample quality =
      sample_of(runs, [&](const RunSummary& run) { return subject.quality(run); });
  json row = {
      {"system", name},
      {"quality", quality.mean()},
      {"quality_deviation", quality.deviation()},
      {"quality_text", subject.text(quality)},
      {"reached",
       std::ranges::count_if(runs, [&](const RunSummary& run) { return subject.reached_by(run); })},
      {"train_seconds", mean([](const RunSummary& run) { return run.train_seconds.value_or(0); })},
      {"samples_per_second",
       mean([](const RunSummary& run) { return run.samples_per_second.value_or(0); })},
      {"sent_bytes_per_worker", mean([](const RunSummary& run) {
         return run.mean_of_workers(&RankSummary::wire_bytes_sent);
       })},
      {"received_bytes_per_worker", mean([](const RunSummary& run) {
         return run.mean_of_workers(&RankSummary::wire_bytes_received);
       })},
      {"sent_bytes_by_all",
       mean([](const RunSummary& run) { return run.sum(&RankSummary::wire_bytes_sent); })},
      {"waited_share", mean([](const RunSummary& run) {
         return run.mean_of_workers(&RankSummary::waited_seconds) / run.train_seconds.value_or(1);
       })},
      {"staleness_mean", json()},
      {"staleness_max", json()},
      {"gradients_dropped", json()}};
  if (runs.front().staleness() != nullptr) {
    row["staleness_mean"] =
        mean([](const RunSummary& run) { return run.staleness()->mean.value_or(0); });
    row["staleness_max"] = sample_of(runs, [](const RunSummary& run) {
                             return static_cast<double>(run.staleness()->max.value_or(0));
                           }).high();
  }
  if (runs.front().servers) {
    row["gradients_dropped"] = mean([](const RunSummary& run) {
      return static_cast<double>(run.servers->gradients_dropped.value_or(0));
    });
  }
  return row;
}

// As people read it; what there is none of is a dash.
std::vector<std::string> as_text(const json& row, int seeds) {
  const int reached = row["reached"];
  const auto count = [&](const char* key) {
    return row[key].is_null() ? "-" : format_count(row[key]);
  };
  return {row["system"],
          row["quality_text"],
          reached == 0       ? "no"
          : reached == seeds ? "yes"
                             : fmt::format("{} of {}", reached, seeds),
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
  const Subject subject(options);
  const std::vector<SystemRun> runs = system_runs(subject, options);
  options.progress->expect(runs.size() * static_cast<std::size_t>(options.seeds));
  const std::vector<std::string> columns = {
      "system",          subject.measure(),     describe(subject.goal(), subject),
      "training",        "samples/s",           "waited",
      "sent per worker", "received per worker", "sent by all",
      "staleness mean",  "staleness max",       "dropped"};
  Table table(columns);
  json rows = json::array();
  Broken broken(columns.size());
  for (const SystemRun& run : runs) {
    try {
      rows.push_back(
          as_row(run.name, subject, measured_over_seeds(options, run.settings, run.name)));
      table.add(as_text(rows.back(), options.seeds));
    } catch (const TrainingBroke& broke) {
      rows.push_back({{"system", run.name}, {"broke_down", broke.what()}});
      table.add(broken.row(run.name, broke));
    }
  }
  const Settings& any = runs.front().settings;
  return {.table = table,
          .rows = rows,
          .conditions = {{"workers", any.workers},
                         {"model", any.train.model},
                         {"data", name_of(any.train.data)},
                         {"epochs", any.train.epochs},
                         {"steps", any.train.steps},
                         {"measure", subject.measure()},
                         {"seeds", options.seeds}},
          .headline = subject.describe(any),
          .remarks =
              "Bytes are on the wire; what server processes send is in \"sent by all\". Staleness "
              "is of gradients,\n"
              "in updates, or of models mixed in, in steps; gradients are counted, and dropped, "
              "block by block. Waited is\n"
              "the share of its time that a worker spent in exchanges, on average." +
              broken.remark()};
}

}  // namespace starling
