// starling measure --grid race: how long it takes each to reach a goal over the same links, PyTorch
// DDP among them.
#include <fmt/format.h>

#include "base/error.h"
#include "base/units.h"
#include "measure/broken.h"
#include "measure/chosen.h"
#include "measure/ddp_peer.h"
#include "measure/grids.h"
#include "measure/reached.h"
#include "measure/subject.h"
#include "report/run_data.h"

namespace starling {

namespace {

using nlohmann::json;

// One line a contestant, each with the learning rate that was best for it of those tried.
constexpr Recipe kImageRacers[] = {
    {"pytorch-ddp", "strategy = 'allreduce'; lr = 0.3", true},
    {"all-reduce", "strategy = 'allreduce'; lr = 0.2"},
    {"pairwise", "strategy = 'pairwise'; lr = 0.2"},
    {"pairwise-16", "strategy = 'pairwise'; period = 16; lr = 0.2"},
    {"pairwise-16-half", "strategy = 'pairwise'; period = 16; codec = 'half'; lr = 0.2"},
    {"pairwise-64-half", "strategy = 'pairwise'; period = 64; codec = 'half'; lr = 0.2"},
    {"pairwise-8-top-1-percent",
     "strategy = 'pairwise'; period = 8; codec = 'top-k'; codec_share = 0.01; mixing_step = 0.05; "
     "lr = 0.2"},
};
constexpr Recipe kTextRacers[] = {
    {"pytorch-ddp", "strategy = 'allreduce'", true},
    {"all-reduce", "strategy = 'allreduce'"},
    {"pairwise-16", "strategy = 'pairwise'; period = 16"},
    {"flock-4", STARLING_MEAN_OF_CODED_CHANGES "period = 4; codec = 'quantized'; codec_levels = 1"},
    {"flock-16",
     STARLING_MEAN_OF_CODED_CHANGES "period = 16; codec = 'quantized'; codec_levels = 1"},
};

struct Racer {
  std::string name;
  Settings settings;
  bool is_ddp;
};

std::vector<Racer> racers(const Subject& subject, const MeasureOptions& options) {
  std::vector<Racer> all;
  const auto add = [&](const Recipe& recipe) {
    Settings settings = subject.settings_of(recipe, options.workers.value_or(4));
    subject.race(settings);
    check_settings(settings);
    all.push_back({recipe.name, settings, recipe.is_ddp});
  };
  if (subject.is_text()) {
    for (const Recipe& recipe : kTextRacers) add(recipe);
  } else {
    for (const Recipe& recipe : kImageRacers) add(recipe);
  }
  return chosen(std::move(all), options.only);
}

// Takes PyTorch DDP off the list where it cannot take part, and says why.
std::string without_ddp(std::vector<Racer>& contestants) {
  std::string why;
  std::erase_if(contestants, [&](const Racer& each) {
    if (!each.is_ddp) return false;
    const std::string reason = why_not_by_ddp(each.settings);
    if (!reason.empty()) why = fmt::format("PyTorch DDP stays away: {}.\n", reason);
    return !reason.empty();
  });
  return why;
}

// What comes before is steep for all.
bool is_drawn(const Subject& subject, double quality) {
  return subject.is_text() ? quality <= 3.2 : quality >= (subject.is_mnist() ? 0.8 : 0.6);
}

// Of the first seed.
Plot drawn(const std::vector<Racer>& contestants, const Subject& subject,
           const MeasureOptions& options, const std::string& title) {
  Plot plot;
  plot.title = title;
  plot.x = {"training time, evaluations left out (s)", true,
            [](double value) { return fmt::format("{:g} s", value); }};
  plot.y = {subject.is_text() ? "bits per character on the validation text"
                              : "accuracy on the test samples (%)",
            false, [](double value) { return fmt::format("{:g}", value); }};
  for (const Racer& each : contestants) {
    const RunData run = read_run(seed_folder(options, each.name, each.settings.seed));
    Plot::Series series{each.name, {}, Plot::Kind::line};
    for (const json& line : run.metrics) {
      const double quality = subject.quality_in(line);
      if (!is_drawn(subject, quality)) continue;
      series.points.push_back(
          {number_in(line, "training_time"), subject.is_text() ? quality : quality * 100});
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

// DDP knows the kernel's count only, in which its evaluations are next to nothing, and that only in a
// lab.
std::optional<double> bytes_sent(const RunSummary& summary) {
  for (const auto count : {&RankSummary::training_bytes_sent, &RankSummary::kernel_bytes_sent}) {
    if (summary.has(count)) return summary.sum(count);
  }
  return std::nullopt;
}

}  // namespace

MeasuredGrid measure_race(const MeasureOptions& options) {
  const Subject subject(options);
  std::vector<Racer> all = racers(subject, options);
  const std::string why_no_ddp = without_ddp(all);
  if (all.empty()) throw Error(why_no_ddp.substr(0, why_no_ddp.size() - 2));
  options.progress->expect(all.size() * static_cast<std::size_t>(options.seeds));
  const Settings& any = all.front().settings;
  const std::vector<std::string> columns = {"who",   "training time",   "sooner than DDP",
                                            "steps", subject.measure(), "sent in training"};
  Table table(columns);
  json rows = json::array();
  std::optional<double> ddp;
  Broken broken(columns.size());
  for (const Racer& each : all) {
    std::vector<RunSummary> runs;
    try {
      runs = measured_over_seeds(options, each.settings, each.name, each.is_ddp);
    } catch (const TrainingBroke& broke) {
      rows.push_back({{"who", each.name}, {"broke_down", broke.what()}});
      table.add(broken.row(each.name, broke));
      continue;
    }
    const Reached reached(subject, runs);
    const auto time = reached.mean(&Reached::seconds);
    const auto sent = bytes_sent(runs.front());
    const Sample bytes =
        sample_of(runs, [](const RunSummary& run) { return bytes_sent(run).value_or(0); });
    const Sample quality =
        sample_of(runs, [&](const RunSummary& run) { return subject.quality(run); });
    if (each.is_ddp) ddp = time;
    rows.push_back({{"who", each.name},
                    {"lr", each.settings.optimizer.lr},
                    {"seconds", time ? json(*time) : json()},
                    {"seconds_deviation", reached.seconds.deviation()},
                    {"reached", reached.count()},
                    {"times_sooner_than_ddp", ddp && time ? json(*ddp / *time) : json()},
                    {"steps", reached.all_steps.mean()},
                    {"quality", quality.mean()},
                    {"bytes_sent", sent ? json(bytes.mean()) : json()}});
    table.add({each.name,
               reached.text(reached.seconds,
                            [](double mean, double deviation) {
                              return deviation > 0
                                         ? fmt::format("{:.1f} ± {:.1f} s", mean, deviation)
                                         : fmt::format("{:.1f} s", mean);
                            }),
               ddp && time ? fmt::format("{:.1f}x", *ddp / *time) : "-",
               format_count(std::round(reached.all_steps.mean())), subject.text(quality),
               sent ? format_bytes(bytes.mean()) : "-"});
  }
  const std::string remarks =
      why_no_ddp +
      "Training time is from the first step until there is one model, evaluations left out; it "
      "ends when one of\nthem finds the goal. Bytes are what all workers sent in training, without "
      "the final mean." +
      broken.remark();
  const Target goal = subject.goal();
  const std::string what = fmt::format(
      "{} workers train {} to {} over {}", any.workers, any.train.model, describe(goal, subject),
      options.lab.empty() ? "loopback" : "links of " + options.lab);
  return {.table = table,
          .rows = rows,
          .conditions = {{"workers", any.workers},
                         {"goal", goal.value},
                         {"measure", subject.measure()},
                         {"seeds", options.seeds},
                         {"lab", options.lab}},
          .headline = what,
          .remarks = remarks,
          .plot = drawn(all, subject, options, what)};
}

}  // namespace starling
