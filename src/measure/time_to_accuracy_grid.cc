// starling measure --grid time-to-accuracy: what it takes every named system to get to the same goal,
// each at its best learning rate, as DAWNBench asks it of whole machines.
#include <fmt/format.h>

#include "base/units.h"
#include "measure/chosen.h"
#include "measure/grids.h"
#include "measure/tuning.h"

namespace starling {

namespace {

using nlohmann::json;

// The budget for tuning, the same for all: one seed at each of these times its own rate.
constexpr double kRateFactors[] = {0.5, 1, 2, 4};

struct Tuned {
  std::string name;
  Settings settings;
};

std::vector<Tuned> to_be_tuned(const Subject& subject, const MeasureOptions& options) {
  std::vector<Tuned> all;
  for (const System& system : chosen(named_systems(), options.only)) {
    Settings settings = subject.settings_of(system, options.workers.value_or(4));
    subject.race(settings);
    check_settings(settings);
    all.push_back({system.name, settings});
  }
  return all;
}

std::string with_deviation(const Reached& reached, const Sample& of,
                           const std::function<std::string(double)>& format) {
  return reached.text(of, [&](double mean, double deviation) {
    return deviation > 0 ? fmt::format("{} ± {}", format(mean), format(deviation)) : format(mean);
  });
}

std::string whole(double number) { return format_count(std::round(number)); }

// How long the goal took each that got there, the fastest on top.
Plot drawn(const json& rows, const std::string& title) {
  std::vector<json> reached;
  for (const json& row : rows) {
    if (!row["seconds"].is_null()) reached.push_back(row);
  }
  std::ranges::sort(reached, {}, [](const json& row) { return row["seconds"].get<double>(); });
  Plot plot;
  plot.title = title;
  plot.y = {"training time to the goal (s)", false,
            [](double value) { return fmt::format("{:g} s", value); }};
  Plot::Series bars{"mean over the seeds", {}, Plot::Kind::bars};
  for (const json& row : reached) {
    bars.points.push_back({static_cast<double>(plot.categories.size()), row["seconds"]});
    plot.categories.push_back(row["system"]);
  }
  plot.series.push_back(std::move(bars));
  return plot;
}

}  // namespace

MeasuredGrid measure_time_to_accuracy(const MeasureOptions& options) {
  const Subject subject(options);
  const std::vector<Tuned> all = to_be_tuned(subject, options);
  options.progress->expect(all.size() *
                           (std::size(kRateFactors) + static_cast<std::size_t>(options.seeds)));
  Table table({"system", "lr", "training time", "steps", "samples", "sent in training",
               "lr: steps of the seed it was tuned on"});
  json rows = json::array();
  for (const Tuned& each : all) {
    std::vector<Tried> tried;
    for (const double factor : kRateFactors) {
      const double lr = each.settings.optimizer.lr * factor;
      tried.push_back(tried_at(options, each.settings, each.name, lr, 1));
    }
    const double lr = tried[best_of(subject, tried)].lr;
    const Tried best = tried_at(options, each.settings, each.name, lr, options.seeds);
    const Reached reached(subject, best.runs);
    const auto number = [&](Sample Reached::*of) {
      const auto mean = reached.mean(of);
      return mean ? json(*mean) : json();
    };
    table.add({each.name, fmt::format("{:g}", lr),
               with_deviation(reached, reached.seconds,
                              [](double seconds) { return fmt::format("{:.1f} s", seconds); }),
               with_deviation(reached, reached.steps, whole),
               with_deviation(reached, reached.samples, whole),
               with_deviation(reached, reached.bytes, format_bytes), describe(subject, tried)});
    json tuning = json::array();
    for (const Tried& rate : tried) {
      const auto steps = Reached(subject, rate.runs).mean(&Reached::steps);
      tuning.push_back({{"lr", rate.lr}, {"steps", steps ? json(*steps) : json()}});
    }
    rows.push_back({{"system", each.name},
                    {"lr", lr},
                    {"reached", reached.count()},
                    {"seconds", number(&Reached::seconds)},
                    {"seconds_deviation", reached.seconds.deviation()},
                    {"steps", number(&Reached::steps)},
                    {"samples", number(&Reached::samples)},
                    {"bytes", number(&Reached::bytes)},
                    {"tuning", tuning}});
  }
  const Settings& any = all.front().settings;
  const std::string what =
      fmt::format("{} workers train {} on {} to {}{}", any.workers, any.train.model, any.train.data,
                  describe(subject.goal(), subject),
                  options.lab.empty() ? "" : " over links of " + options.lab);
  std::optional<Plot> plot;
  if (std::ranges::any_of(rows, [](const json& row) { return !row["seconds"].is_null(); })) {
    plot = drawn(rows, what);
  }
  return {.table = table,
          .rows = rows,
          .conditions = {{"workers", any.workers},
                         {"model", any.train.model},
                         {"data", name_of(any.train.data)},
                         {"goal", subject.goal().value},
                         {"measure", subject.measure()},
                         {"seeds", options.seeds},
                         {"lab", options.lab}},
          .headline = what,
          .remarks =
              "Each system at the rate that took the fewest samples to the goal from one "
              "seed, of those in the last column\n(half its own to four times that); then "
              "from all seeds. Training time is from the first step until there is one\n"
              "model, evaluations left out. Bytes are what all workers and servers sent in "
              "training, without the final mean.",
          .plot = plot};
}

}  // namespace starling
