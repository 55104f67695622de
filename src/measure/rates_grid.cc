// starling measure --grid rates: which learning rate is best, against the number of workers.
#include <fmt/format.h>

#include "measure/chosen.h"
#include "measure/grids.h"
#include "measure/tuning.h"

namespace starling {

namespace {

using nlohmann::json;

constexpr Recipe kRatedRecipes[] = {
    {"all-reduce", "strategy = 'allreduce'"},
    {"pairwise", "strategy = 'pairwise'"},
    {"local-sgd", "strategy = 'local'; period = 8"},
};
constexpr Recipe kRatedAlone = {"one-alone", "strategy = 'single'"};
constexpr int kFlocks[] = {2, 4, 8};
constexpr double kFactorsOfRate[] = {0.25, 0.5, 1, 2, 4, 8};

struct Rated {
  std::string name;
  int workers;
  Settings settings;
};

std::vector<Rated> to_be_rated(const Subject& subject, const MeasureOptions& options) {
  std::vector<Rated> all;
  const auto add = [&](const Recipe& recipe, int workers) {
    Settings settings = subject.settings_of(recipe, workers);
    subject.race(settings);
    check_settings(settings);
    all.push_back({recipe.name, workers, settings});
  };
  add(kRatedAlone, 1);  // all are alike then
  std::vector<Recipe> recipes(std::begin(kRatedRecipes), std::end(kRatedRecipes));
  for (const Recipe& recipe : chosen(recipes, options.only)) {
    for (const int workers : kFlocks) add(recipe, workers);
  }
  return all;
}

Plot drawn_rates(const json& rows, const std::string& title) {
  Plot plot;
  plot.title = title;
  plot.x = {"workers", true, [](double value) { return fmt::format("{:g}", value); }};
  plot.y = {"learning rate that takes the fewest steps", true,
            [](double value) { return fmt::format("{:g}", value); }};
  std::vector<Plot::Point> alone;  // where every line begins
  for (const json& row : rows) {
    if (row["best_lr"].is_null()) continue;
    const Plot::Point point{row["workers"], row["best_lr"]};
    if (row["who"] == kRatedAlone.name) {
      alone = {point};
      continue;
    }
    if (plot.series.empty() || plot.series.back().name != row["who"]) {
      plot.series.push_back({row["who"], alone, Plot::Kind::line});
    }
    plot.series.back().points.push_back(point);
  }
  return plot;
}

}  // namespace

MeasuredGrid measure_rates(const MeasureOptions& options) {
  const Subject subject(options);
  const std::vector<Rated> all = to_be_rated(subject, options);
  options.progress->expect(all.size() * std::size(kFactorsOfRate) *
                           static_cast<std::size_t>(options.seeds));
  const double own = all.front().settings.optimizer.lr;
  std::vector<std::string> header = {"who", "workers", "best lr"};
  for (const double factor : kFactorsOfRate) header.push_back(fmt::format("lr {:g}", own * factor));
  Table table(header);
  json rows = json::array();
  for (const Rated& each : all) {
    std::vector<Tried> tried;
    for (const double factor : kFactorsOfRate) {
      tried.push_back(tried_at(options, each.settings,
                               fmt::format("{}-{}", each.name, each.workers), own * factor,
                               options.seeds));
    }
    const Tried& best = tried[best_of(subject, tried)];
    const bool got_there = Reached(subject, best.runs).count() > 0;
    std::vector<std::string> cells = {each.name, std::to_string(each.workers),
                                      got_there ? fmt::format("{:g}", best.lr) : "-"};
    json steps = json::array();
    for (const Tried& rate : tried) {
      const Reached reached(subject, rate.runs);
      const auto mean = reached.mean(&Reached::steps);
      cells.push_back(!mean ? "-" : reached.text(reached.steps, [](double steps_taken, double off) {
        return off > 0 ? fmt::format("{:.0f} ± {:.0f}", steps_taken, off)
                       : fmt::format("{:.0f}", steps_taken);
      }));
      steps.push_back({{"lr", rate.lr},
                       {"reached", reached.count()},
                       {"steps", mean ? json(*mean) : json()},
                       {"steps_deviation", reached.steps.deviation()}});
    }
    table.add(std::move(cells));
    rows.push_back({{"who", each.name},
                    {"workers", each.workers},
                    {"best_lr", got_there ? json(best.lr) : json()},
                    {"rates", steps}});
  }
  const Settings& any = all.front().settings;
  const std::string what =
      fmt::format("{} on {} to {}, batches of {} a worker", any.train.model, any.train.data,
                  describe(subject.goal(), subject), any.train.batch);
  std::optional<Plot> plot = drawn_rates(rows, what);
  if (plot->series.empty()) plot.reset();
  return {.table = table,
          .rows = rows,
          .conditions = {{"model", any.train.model},
                         {"data", name_of(any.train.data)},
                         {"goal", subject.goal().value},
                         {"measure", subject.measure()},
                         {"seeds", options.seeds}},
          .headline = what,
          .remarks =
              "Steps of each worker to the goal at each learning rate; a dash where it was "
              "not reached. The best rate is that\nof the fewest samples, of those from "
              "which most seeds got there.",
          .plot = plot};
}

}  // namespace starling
