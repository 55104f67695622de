// starling measure --grid tradeoff: workers that never talk and average once at the end fall short of
// all-reduce by a gap. Which share of it does a setting recover, for how many times fewer bytes?
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/units.h"
#include "measure/broken.h"
#include "measure/chosen.h"
#include "measure/gap.h"
#include "measure/grids.h"
#include "measure/subject.h"

namespace starling {

namespace {

using nlohmann::json;

// What the others are held against: they always run.
constexpr Recipe kAllreduce = {"all-reduce", "strategy = 'allreduce'"};
constexpr Recipe kNeverTalk = {"never-talk", "strategy = 'local'; period = 1000000"};
constexpr Recipe kOneAlone = {"one-alone", "strategy = 'single'"};

// One line a setting. Name it as its folder is to be called.
constexpr Recipe kTextTrades[] = {
    {"pairwise-1", "strategy = 'pairwise'"},
    {"pairwise-16", "strategy = 'pairwise'; period = 16"},
    {"pairwise-64", "strategy = 'pairwise'; period = 64"},
    {"mean-16", "strategy = 'local'; period = 16"},
    {"mean-64", "strategy = 'local'; period = 64"},
    {"pairwise-16-half", "strategy = 'pairwise'; period = 16; codec = 'half'"},
    {"diloco", "strategy = 'mix'; graph = 'mesh'; mixing = 'outer'; period = 16"},
    {"flock-1-seven-levels",
     STARLING_MEAN_OF_CODED_CHANGES "period = 1; codec = 'quantized'; codec_levels = 3"},
    {"flock-3", STARLING_MEAN_OF_CODED_CHANGES "period = 3; codec = 'quantized'; codec_levels = 1"},
    {"flock-4", STARLING_MEAN_OF_CODED_CHANGES "period = 4; codec = 'quantized'; codec_levels = 1"},
    {"flock-4-overlap", STARLING_MEAN_OF_CODED_CHANGES
     "period = 4; overlap = true; codec = 'quantized'; codec_levels = 1"},
    {"flock-16",
     STARLING_MEAN_OF_CODED_CHANGES "period = 16; codec = 'quantized'; codec_levels = 1"},
    {"flock-64",
     STARLING_MEAN_OF_CODED_CHANGES "period = 64; codec = 'quantized'; codec_levels = 1"},
    {"flock-16-sign", STARLING_MEAN_OF_CODED_CHANGES "period = 16; codec = 'sign'"},
    {"flock-1-top-1-percent",
     STARLING_MEAN_OF_CODED_CHANGES "period = 1; codec = 'top-k'; codec_share = 0.01"},
    {"gradients-seven-levels",
     "strategy = 'allreduce'; codec = 'quantized'; codec_levels = 3; codec_entropy = true"},
    {"gradients-top-1-percent", "strategy = 'allreduce'; codec = 'top-k'; codec_share = 0.01"},
};
constexpr Recipe kImageTrades[] = {
    {"pairwise-1", "strategy = 'pairwise'"},
    {"pairwise-8", "strategy = 'pairwise'; period = 8"},
    {"pairwise-64", "strategy = 'pairwise'; period = 64"},
    {"two-passes-8", "strategy = 'pairwise'; passes = 2; period = 8"},
    {"mean-8", "strategy = 'local'; period = 8"},
    {"mean-64", "strategy = 'local'; period = 64"},
    {"pairwise-8-half", "strategy = 'pairwise'; period = 8; codec = 'half'"},
    {"pairwise-8-top-1-percent",
     "strategy = 'pairwise'; period = 8; codec = 'top-k'; codec_share = 0.01; mixing_step = 0.05"},
    {"pairwise-8-top-0.2-percent",
     "strategy = 'pairwise'; period = 8; codec = 'top-k'; codec_share = 0.002; mixing_step = 0.05"},
    {"diloco", "strategy = 'mix'; graph = 'mesh'; mixing = 'outer'; period = 16"},
    {"flock-1-seven-levels",
     STARLING_MEAN_OF_CODED_CHANGES "period = 1; codec = 'quantized'; codec_levels = 3"},
    {"flock-3", STARLING_MEAN_OF_CODED_CHANGES "period = 3; codec = 'quantized'; codec_levels = 1"},
    {"flock-16",
     STARLING_MEAN_OF_CODED_CHANGES "period = 16; codec = 'quantized'; codec_levels = 1"},
};

constexpr double kSavings[] = {10, 50, 300};  // the best at each of these is told

struct Traded {
  std::string name;
  Settings settings;
  Sample quality, bytes,
      training_bytes;  // bytes: all that was sent, the final mean and control too
  Sample share = {};   // of the gap
  double times_fewer = 1;
  bool on_front = false;
};

std::vector<Recipe> recipes(const Subject& subject, const MeasureOptions& options) {
  std::vector<Recipe> all;
  if (subject.is_text()) {
    all.assign(std::begin(kTextTrades), std::end(kTextTrades));
  } else {
    all.assign(std::begin(kImageTrades), std::end(kImageTrades));
  }
  return chosen(std::move(all), options.only);
}

Settings traded_settings(const Recipe& recipe, const Subject& subject, int workers) {
  Settings settings = subject.settings_of(recipe, workers);
  settings.train.evaluate_every = 0;  // evaluations send whole models
  check_settings(settings);
  return settings;
}

// As many steps as each of the others takes, and as long a warm-up.
Settings settings_of_one(const Subject& subject, int workers) {
  Settings settings = traded_settings(kOneAlone, subject, 1);
  if (settings.train.steps == 0) settings.train.epochs /= workers;
  return settings;
}

Traded measured_row(const Recipe& recipe, const Settings& settings, const Subject& subject,
                    const MeasureOptions& options) {
  const std::vector<RunSummary> runs = measured_over_seeds(options, settings, recipe.name);
  const auto sent = [&](RankSummary::Bytes RankSummary::*field) {
    return sample_of(runs, [&](const RunSummary& run) { return run.sum(field); });
  };
  return {.name = recipe.name,
          .settings = settings,
          .quality = sample_of(runs, [&](const RunSummary& run) { return subject.quality(run); }),
          .bytes = sent(&RankSummary::wire_bytes_sent),
          .training_bytes = sent(&RankSummary::training_bytes_sent)};
}

json as_json(const Traded& row) {
  return {{"setting", row.name},
          {"quality", row.quality.mean()},
          {"quality_deviation", row.quality.deviation()},
          {"bytes_in_all", row.bytes.mean()},
          {"bytes_in_training", row.training_bytes.mean()},
          {"times_fewer", std::isfinite(row.times_fewer) ? json(row.times_fewer) : json()},
          {"share_of_gap", row.share.mean()},
          {"share_of_gap_deviation", row.share.deviation()},
          {"front", row.on_front}};
}

std::string whole_percent(const Sample& shares) {
  if (shares.values.size() < 2) return fmt::format("{:.1f} %", shares.mean() * 100);
  return fmt::format("{:.1f} ± {:.1f} %", shares.mean() * 100, shares.deviation() * 100);
}

Plot drawn(const std::vector<Traded>& rows, const std::string& title) {
  Plot plot;
  plot.title = title;
  plot.x = {"all bytes sent by all workers, on the wire", true,
            [](double bytes) { return format_bytes(bytes); }};
  plot.y = {"share of the gap that is recovered (%)", false,
            [](double value) { return fmt::format("{:g}", value); }};
  const auto [least, most] =
      std::ranges::minmax(rows, {}, [](const Traded& row) { return row.bytes.mean(); });
  const Plot::Kind line = Plot::Kind::line;
  Plot::Series front{"Pareto front", {}, line};
  for (const auto& [name, percent] : {std::pair(kAllreduce.name, 100.0), {kNeverTalk.name, 0.0}}) {
    plot.series.push_back(
        {name, {{least.bytes.mean(), percent}, {most.bytes.mean(), percent}}, line});
  }
  for (const Traded& row : rows) {
    const Plot::Point point{row.bytes.mean(), row.share.mean() * 100};
    if (row.on_front) front.points.push_back(point);
    if (row.name != kAllreduce.name && row.name != kNeverTalk.name) {
      plot.series.push_back({row.name, {point}});
    }
  }
  plot.series.push_back(std::move(front));
  return plot;
}

// "At least 10 times fewer bytes: 79.1 % of the gap (mean-16, 15.6 times fewer)."
std::string about_savings(const std::vector<Traded>& rows, const std::vector<Recovered>& points,
                          double bytes_of_allreduce, json& best) {
  std::string text;
  for (const double saving : kSavings) {
    const auto found = best_within(points, bytes_of_allreduce / saving);
    text += fmt::format("At least {:g} times fewer bytes than all-reduce: ", saving);
    if (!found) {
      text += "none.\n";
      continue;
    }
    const Traded& row = rows[*found];
    text += fmt::format("{} of the gap ({}, {:.1f} times fewer).\n", whole_percent(row.share),
                        row.name, row.times_fewer);
    best.push_back({{"saving", saving},
                    {"setting", row.name},
                    {"share_of_gap", row.share.mean()},
                    {"times_fewer", row.times_fewer}});
  }
  return text;
}

}  // namespace

MeasuredGrid measure_tradeoff(const MeasureOptions& options) {
  const Subject subject(options);
  const int workers = options.workers.value_or(subject.is_text() ? 4 : 6);
  if (workers < 2) throw Error("one worker has nobody to talk to", "use --workers 2 or more");
  const std::vector<Recipe> compared = recipes(subject, options);
  std::vector<std::pair<Recipe, Settings>> runs = {
      {kAllreduce, traded_settings(kAllreduce, subject, workers)},
      {kNeverTalk, traded_settings(kNeverTalk, subject, workers)},
      {kOneAlone, settings_of_one(subject, workers)}};
  for (const Recipe& each : compared)
    runs.emplace_back(each, traded_settings(each, subject, workers));
  options.progress->expect(runs.size() * static_cast<std::size_t>(options.seeds));

  std::vector<Traded> rows;
  const std::vector<std::string> columns = {"setting",     subject.measure(), "share of the gap",
                                            "sent in all", "fewer by",        "sent in training",
                                            "front"};
  Table table(columns);
  json as_rows = json::array();
  Broken broken(columns.size());
  std::vector<std::vector<std::string>> broken_rows;  // below all others
  for (const auto& [recipe, settings] : runs) {
    try {
      rows.push_back(measured_row(recipe, settings, subject, options));
    } catch (const TrainingBroke& broke) {
      if (rows.size() < 3) throw;  // all the others are held against these
      broken_rows.push_back(broken.row(recipe.name, broke));
      as_rows.push_back({{"setting", recipe.name}, {"broke_down", broke.what()}});
    }
  }
  const Traded whole = rows[0], none = rows[1];
  if (whole.quality.mean() == none.quality.mean()) {
    throw Error("all-reduce is no better here than never talking: there is no gap to recover",
                "train on more --samples, or for longer");
  }
  std::vector<Recovered> points;
  for (Traded& row : rows) {
    for (const double quality : row.quality.values) {
      row.share.values.push_back(share_of_gap(quality, none.quality.mean(), whole.quality.mean()));
    }
    row.times_fewer = whole.bytes.mean() / row.bytes.mean();
  }
  const Traded alone = rows[2];  // sends nothing, and is no way to train together
  rows.erase(rows.begin() + 2);
  std::ranges::stable_sort(rows, {}, [](const Traded& row) { return row.bytes.mean(); });
  for (const Traded& row : rows) points.push_back({row.bytes.mean(), row.share.mean()});
  const std::vector<bool> front = front_of(points);

  const auto add = [&](const Traded& row) {
    const bool sends = row.bytes.mean() > 0;
    table.add({row.name, subject.text(row.quality), whole_percent(row.share),
               format_bytes(row.bytes.mean()),
               sends ? fmt::format("{:.1f}x", row.times_fewer) : "-",
               format_bytes(row.training_bytes.mean()), row.on_front ? "*" : ""});
    as_rows.push_back(as_json(row));
  };
  add(alone);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].on_front = front[i];
    add(rows[i]);
  }
  for (const auto& row : broken_rows) table.add(row);
  const std::string what = subject.describe(whole.settings);
  json best = json::array();
  const std::string remarks =
      about_savings(rows, points, whole.bytes.mean(), best) +
      fmt::format(
          "The gap is from {} where workers never talk, and average their models once at the end, "
          "to {} with all-reduce.\none-alone takes as many steps as each of them, and has nobody. "
          "\"Sent in all\" has the final mean and all control\nmessages in it. * nothing else is "
          "both cheaper and better.{}",
          subject.text(none.quality), subject.text(whole.quality), broken.remark());
  return {.table = table,
          .rows = as_rows,
          .conditions = {{"workers", workers},
                         {"model", whole.settings.train.model},
                         {"data", name_of(whole.settings.train.data)},
                         {"measure", subject.measure()},
                         {"seeds", options.seeds},
                         {"best_at_savings", best}},
          .headline =
              fmt::format("{}{}: share of the gap between never talking and all-reduce", what,
                          options.seeds > 1 ? fmt::format(", from {} seeds", options.seeds) : ""),
          .remarks = remarks,
          .plot = drawn(rows, what)};
}

}  // namespace starling
