// starling measure --grid paper: the pair-wise averaging paper's experiment, beside its own
// numbers.
#include <fmt/format.h>

#include "base/units.h"
#include "measure/grids.h"
#include "measure/measured_run.h"
#include "measure/paper_table.h"

namespace starling {

namespace {

using nlohmann::json;

// As the paper counts: sent and received, by everybody; by the kernel, where hosts have interfaces
// of their own.
double network_bytes(const RunSummary& summary) {
  if (summary.has(&RankSummary::kernel_bytes_sent)) {
    return summary.sum(&RankSummary::kernel_bytes_sent) +
           summary.sum(&RankSummary::kernel_bytes_received);
  }
  return summary.sum(&RankSummary::wire_bytes_sent) +
         summary.sum(&RankSummary::wire_bytes_received);
}

// The paper's figure: network activity as bars, with the accuracy on them.
Plot drawn(const json& rows) {
  Plot plot;
  plot.title = "Network activity and accuracy (%), workers / passes";
  plot.y = {"sent and received by all workers", false,
            [](double bytes) { return format_bytes(bytes); }};
  plot.series = {{"all-reduce", {}, Plot::Kind::bars}, {"pair-wise", {}, Plot::Kind::bars}};
  for (const json& row : rows) {
    const int workers = row["workers"], passes = row["passes"];
    const Plot::Point top{static_cast<double>(plot.categories.size()), row["network_bytes"]};
    plot.series[passes == workers ? 0 : 1].points.push_back(top);
    plot.notes.push_back({top, fmt::format("{:.1f}", row["accuracy"].get<double>() * 100)});
    plot.categories.push_back(fmt::format("{}/{}", workers, passes));
  }
  return plot;
}

// What is not sent of what the baseline sends; negative if more is.
std::string saving(double bytes, double baseline) {
  return fmt::format("{:.1f} %", (1 - bytes / baseline) * 100 + 0.0);
}

}  // namespace

MeasuredGrid measure_paper(const MeasureOptions& options) {
  const Settings common = options.settings_over({});
  const auto grid = paper_table();
  options.progress->expect(grid.size());
  std::vector<RunSummary> results;
  for (std::size_t i = 0; i < grid.size(); ++i) {
    const PaperRow& row = grid[i];
    Settings settings = common;
    settings.workers = row.workers;
    const bool with_all = row.passes == row.workers;
    settings.strategy = with_all ? StrategyKind::allreduce : StrategyKind::pairwise;
    settings.mix.graph.passes = with_all ? 1 : row.passes;
    settings.train.epochs = row.iterations;
    settings.train.evaluate_every = 0;  // which would take longer than training on so few samples
    check_settings(settings);
    results.push_back(measured_run(options, settings,
                                   fmt::format("workers-{}-passes-{}-iterations-{}", row.workers,
                                               row.passes, row.iterations)));
  }

  Table table({"workers", "passes", "iterations", "network", "saving", "per iteration", "accuracy",
               "paper's network", "its saving", "its accuracy"});
  json rows = json::array();
  double our_baseline = 1, our_per_iteration = 1, paper_baseline = 1;
  for (std::size_t i = 0; i < grid.size(); ++i) {
    const PaperRow& row = grid[i];
    const double bytes = network_bytes(results[i]);
    if (row.passes == row.workers) {
      our_baseline = bytes;
      our_per_iteration = bytes / row.iterations;
      paper_baseline = row.terabytes;
    }
    const double accuracy = results[i].accuracy.value_or(0);
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
  return {.table = table,
          .rows = rows,
          .conditions = {{"lab", options.lab}},
          .headline = options.lab.empty()
                          ? "Network is what all workers sent and received on the wire."
                          : fmt::format("Links of {}. Network is what the kernel counted on all "
                                        "workers' interfaces, both ways.",
                                        options.lab),
          .plot = drawn(rows)};
}

}  // namespace starling
