// starling measure --grid tradeoff: what pairwise averaging costs and what it reaches, over passes,
// periods, codecs and mixing steps, beside all-reduce.
#include <fmt/format.h>

#include "base/error.h"
#include "base/units.h"
#include "measure/grids.h"
#include "measure/measured_run.h"
#include "report/run_data.h"

namespace starling {

namespace {

using nlohmann::json;

constexpr double kLoss = 0.005;  // of accuracy against all-reduce that a saving may cost
constexpr double kDrawn = 0.01;  // what lost more would squeeze the others together

struct Coding {
  const char* name;
  CodecSettings::Kind codec;
  double share = 0.01;
};
constexpr Coding kCodings[] = {{"raw", CodecSettings::Kind::raw},
                               {"half", CodecSettings::Kind::half},
                               {"threshold", CodecSettings::Kind::threshold},
                               {"top 1 %", CodecSettings::Kind::top_k, 0.01},
                               {"top 0.2 %", CodecSettings::Kind::top_k, 0.002}};
constexpr int kPasses[] = {1, 2};
constexpr int kPeriods[] = {8, 64};
constexpr double kSteps[] = {0.5, 0.05};

struct Run {
  std::string coding;
  Settings settings;
  std::string name() const {
    if (settings.strategy != StrategyKind::pairwise) return std::string(name_of(settings.strategy));
    std::string name =
        fmt::format("{}-passes-{}-period-{}-step-{}", coding, settings.mix.graph.passes,
                    settings.schedule.period, settings.mix.step);
    std::erase_if(name, [](char c) { return c == ' ' || c == '%'; });
    return name;
  }
};

std::vector<Run> tradeoff_runs(const MeasureOptions& options) {
  Settings common;
  common.workers = 6;
  common.train.epochs = 5;
  common.optimizer.lr = 0.05;
  common.optimizer.momentum = 0.5;
  common = options.settings_over(common);
  if (options.workers) common.workers = *options.workers;
  common.train.evaluate_every = 0;  // evaluations send whole models
  std::vector<Run> runs = {{"raw", common}};
  runs[0].settings.strategy = StrategyKind::allreduce;
  // What the exchanges have to beat: everybody alone, and the mean of all at the end.
  runs.push_back({"raw", common});
  runs[1].settings.strategy = StrategyKind::local;
  runs[1].settings.schedule.period = 1'000'000;
  for (const Coding& coding : kCodings) {
    for (int passes : kPasses) {
      for (int period : kPeriods) {
        for (double step : kSteps) {
          Settings settings = common;
          settings.strategy = StrategyKind::pairwise;
          settings.mix.graph.passes = passes;
          settings.schedule.period = period;
          settings.mix.codec.kind = coding.codec;
          settings.mix.codec.share = coding.share;
          settings.mix.step = step;
          runs.push_back({coding.name, settings});
        }
      }
    }
  }
  for (const Run& run : runs) check_settings(run.settings);
  return runs;
}

// A setting whose training broke down is a result, too.
json as_row(const Run& run, const MeasureOptions& options) {
  json row = {{"strategy", name_of(run.settings.strategy)},
              {"codec", run.coding},
              {"passes", run.settings.mix.graph.passes},
              {"period", run.settings.schedule.period},
              {"mixing_step", run.settings.mix.step},
              {"accuracy", 0.0},
              {"bytes", 0.0},
              {"bytes_in_all", 0.0}};
  try {
    const RunSummary summary = measured_run(options, run.settings, run.name());
    row["accuracy"] = summary.accuracy.value_or(0);
    row["bytes"] = summary.sum(&RankSummary::training_bytes_sent);
    row["bytes_in_all"] = summary.sum(&RankSummary::wire_bytes_sent);
    row["spread"] = summary.spread.value_or(0);  // of weights that are no numbers: none
    row["seconds"] = summary.train_seconds.value_or(0);
  } catch (const Error& error) {
    row["error"] = error.what();
  }
  return row;
}

// What nothing else beats in both bytes and accuracy, from the cheapest on.
void mark_front(std::vector<json>& rows) {
  double best = 0;
  for (json& row : rows) {
    const double accuracy = row["accuracy"];
    row["front"] = accuracy > best;
    best = std::max(best, accuracy);
  }
}

std::string percent(double share) { return fmt::format("{:.2f} %", share * 100); }

Plot drawn(const std::vector<json>& rows, const json* cheapest, double least,
           const std::string& title) {
  Plot plot;
  plot.title = title;
  plot.x = {"bytes sent by all workers in training, on the wire", true,
            [](double bytes) { return format_bytes(bytes); }};
  plot.y = {"accuracy of the mean model on the test samples (%)", false,
            [](double value) { return fmt::format("{:g}", value); }};
  const auto point = [](const json& row) {
    return Plot::Point{row["bytes"], row["accuracy"].get<double>() * 100};
  };
  Plot::Series front{"Pareto front", {}, Plot::Kind::line};
  std::vector<Plot::Series> series = {{"all-reduce", {}}};
  for (const Coding& coding : kCodings) series.push_back({coding.name, {}});
  for (const json& row : rows) {
    if (row["accuracy"].get<double>() < least) continue;
    const std::string name = row["strategy"] == name_of(StrategyKind::allreduce)
                                 ? "all-reduce"
                                 : row["codec"].get<std::string>();
    std::ranges::find(series, name, &Plot::Series::name)->points.push_back(point(row));
    if (row["front"].get<bool>()) front.points.push_back(point(row));
  }
  plot.series = std::move(series);
  plot.series.push_back(std::move(front));
  if (cheapest != nullptr) {
    plot.notes.push_back({point(*cheapest), fmt::format("{:.0f}x fewer bytes than all-reduce",
                                                        (*cheapest)["times_fewer"].get<double>())});
  }
  return plot;
}

}  // namespace

MeasuredGrid measure_tradeoff(const MeasureOptions& options) {
  const std::vector<Run> runs = tradeoff_runs(options);
  options.progress->expect(runs.size());
  std::vector<json> rows;
  for (const Run& run : runs) rows.push_back(as_row(run, options));
  const json baseline = rows[0];
  const json alone = rows[1];
  for (const json& row : {baseline, alone}) {
    if (row.contains("error")) throw Error(row["error"].get<std::string>());
  }
  rows.erase(rows.begin() + 1);
  std::erase_if(rows, [](const json& row) { return row.contains("error"); });
  const std::size_t broken = runs.size() - 1 - rows.size();
  std::ranges::stable_sort(rows, {}, [](const json& row) { return row["bytes"].get<double>(); });
  mark_front(rows);

  const double goal = baseline["accuracy"].get<double>() - kLoss;
  const double least_drawn = baseline["accuracy"].get<double>() - kDrawn;
  const json* cheapest = nullptr;
  int undrawn = 0;
  Table table({"codec", "passes", "period", "step", "accuracy", "sent in training", "fewer by",
               "sent in all", "spread", "front"});
  for (json& row : rows) {
    const double bytes = row["bytes"];
    row["times_fewer"] = baseline["bytes"].get<double>() / bytes;
    row["times_fewer_in_all"] =
        baseline["bytes_in_all"].get<double>() / row["bytes_in_all"].get<double>();
    const bool allreduce = row["strategy"] == name_of(StrategyKind::allreduce);
    if (cheapest == nullptr && row["accuracy"].get<double>() >= goal) cheapest = &row;
    if (row["accuracy"].get<double>() < least_drawn) ++undrawn;
    table.add({allreduce ? "(all-reduce)" : row["codec"].get<std::string>(),
               allreduce ? "-" : std::to_string(row["passes"].get<int>()),
               allreduce ? "-" : std::to_string(row["period"].get<int>()),
               allreduce ? "-" : fmt::format("{:g}", row["mixing_step"].get<double>()),
               percent(row["accuracy"]), format_bytes(bytes),
               fmt::format("{:.0f}x", row["times_fewer"].get<double>()),
               format_bytes(row["bytes_in_all"]), percent(row["spread"]),
               row["front"].get<bool>() ? "*" : ""});
  }
  const Settings& any = runs[0].settings;
  const std::string what =
      fmt::format("{} workers train {} on {} for {:g} epochs, lr {:g}", any.workers,
                  any.train.model, any.train.data, any.train.epochs, any.optimizer.lr);
  std::string remarks;
  if (cheapest != nullptr) {
    remarks = fmt::format(
        "The cheapest within {:.1f} points of all-reduce ({}): {} of the difference, passes {}, "
        "period {}, step {:g}:\n{} with {} in training, {:.0f} times fewer bytes ({:.0f} times "
        "with the final mean and all else).",
        kLoss * 100, percent(baseline["accuracy"]), (*cheapest)["codec"].get<std::string>(),
        (*cheapest)["passes"].get<int>(), (*cheapest)["period"].get<int>(),
        (*cheapest)["mixing_step"].get<double>(), percent((*cheapest)["accuracy"]),
        format_bytes((*cheapest)["bytes"]), (*cheapest)["times_fewer"].get<double>(),
        (*cheapest)["times_fewer_in_all"].get<double>());
  }
  remarks += fmt::format(
      "\nWith no exchange at all but the final mean: {}. Every setting here ends with that mean, "
      "which is in \"sent in all\".\n* nothing else is both cheaper and better. {} settings below "
      "{} are not drawn; {} "
      "broke down.",
      percent(alone["accuracy"]), undrawn, percent(least_drawn), broken);
  const Plot plot = drawn(rows, cheapest, least_drawn, what);
  return {.table = table,
          .rows = rows,
          .conditions = {{"workers", any.workers},
                         {"model", any.train.model},
                         {"data", name_of(any.train.data)},
                         {"epochs", any.train.epochs},
                         {"accuracy_alone", alone["accuracy"]},
                         {"cheapest", cheapest == nullptr ? json() : *cheapest}},
          .headline = what,
          .remarks = remarks,
          .plot = plot};
}

}  // namespace starling
