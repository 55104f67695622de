// starling measure --grid race: how long it takes each to reach an accuracy over the same links,
// PyTorch DDP among them.
#include <fmt/format.h>

#include "base/error.h"
#include "base/units.h"
#include "launch/programs.h"
#include "measure/contestants.h"
#include "measure/ddp_peer.h"
#include "measure/grids.h"
#include "measure/measured_run.h"
#include "report/run_data.h"

namespace starling {

namespace {

using nlohmann::json;

constexpr double kLeastDrawn = 80;  // percent; what comes before is steep for all

struct Contestant {
  const char* name;
  Settings settings;
  bool is_ddp = false;
};

// DDP and we have the learning rates that were best for each of those tried (docs/measurements.md).
constexpr double kDdpRate = 0.3, kOurRate = 0.2;

std::vector<Contestant> racers(const MeasureOptions& options) {
  using enum CodecSettings::Kind;
  const auto with_rate = [&](double lr) {
    Settings defaults;
    defaults.train.epochs = 5;
    defaults.train.evaluate_every = 0.05;
    defaults.train.until = "accuracy=0.97";
    defaults.optimizer.lr = lr;
    Settings settings = options.settings_over(defaults);
    settings.workers = options.workers.value_or(4);
    settings.strategy = StrategyKind::allreduce;
    return settings;
  };
  const Settings allreduce = with_rate(kOurRate);
  const auto pairwise = [&](int period, CodecSettings::Kind codec) {
    Settings settings = allreduce;
    settings.strategy = StrategyKind::pairwise;
    settings.schedule.period = period;
    settings.mix.codec.kind = codec;
    return settings;
  };
  Settings largest = pairwise(8, top_k);  // the cheapest of `--grid tradeoff` to reach 97 %
  largest.mix.codec.share = 0.01;
  largest.mix.step = 0.05;
  const std::vector<Contestant> contestants = {{"pytorch-ddp", with_rate(kDdpRate), true},
                                               {"all-reduce", allreduce},
                                               {"pairwise", pairwise(1, raw)},
                                               {"pairwise-16", pairwise(16, raw)},
                                               {"pairwise-16-half", pairwise(16, half)},
                                               {"pairwise-64-half", pairwise(64, half)},
                                               {"pairwise-8-top-1-percent", largest}};
  for (const Contestant& each : contestants) check_settings(each.settings);
  return contestants;
}

// Why PyTorch DDP cannot take part; empty if it can.
std::string ddp_stays_away(const Settings& settings) {
  if (settings.train.model != "mnist-cnn" || settings.train.data != TrainSettings::Data::mnist) {
    return "PyTorch DDP stays away: its driver knows mnist-cnn on mnist only.\n";
  }
  return has_sibling_program(kDdpProgram) ? ""
                                          : "PyTorch DDP is not here; `make bench` installs it.\n";
}

Plot drawn(const GridProgress& progress, const std::string& title) {
  Plot plot;
  plot.title = title;
  plot.x = {"training time, evaluations left out (s)", true,
            [](double value) { return fmt::format("{:g} s", value); }};
  plot.y = {"accuracy on the test samples (%)", false,
            [](double value) { return fmt::format("{:g}", value); }};
  for (const std::filesystem::path& folder : progress.done()) {
    const RunData run = read_run(folder);
    Plot::Series series{run.name, {}, Plot::Kind::line};
    for (const json& line : run.metrics) {
      const double accuracy = number_in(line, "accuracy") * 100;
      if (accuracy >= kLeastDrawn) {
        series.points.push_back({number_in(line, "training_time"), accuracy});
      }
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

// What it took to have one model of that accuracy; none if it did not get there.
std::optional<double> seconds_to_goal(const RunSummary& summary, double goal) {
  if (summary.accuracy.value_or(0) < goal) return std::nullopt;
  return summary.train_seconds.value_or(0);
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
  std::vector<Contestant> contestants = racers(options);
  const std::string why_no_ddp = ddp_stays_away(contestants.front().settings);
  if (!why_no_ddp.empty()) contestants.erase(contestants.begin());
  options.progress->expect(contestants.size());
  const Settings& any = contestants.front().settings;
  const std::optional<Target> target = target_of(any.train);
  const double goal = target ? target->value : 0.97;
  Table table({"who", "training time", "sooner than DDP", "steps", "accuracy", "sent in training"});
  json rows = json::array();
  std::optional<double> ddp;
  for (const Contestant& each : contestants) {
    const RunSummary summary = measured_run(options, each.settings, each.name, each.is_ddp);
    const auto time = seconds_to_goal(summary, goal);
    const auto sent = bytes_sent(summary);
    if (each.is_ddp) ddp = time;
    json row = {{"who", each.name},
                {"seconds", time ? json(*time) : json()},
                {"times_sooner_than_ddp", ddp && time ? json(*ddp / *time) : json()},
                {"steps", summary.steps.value_or(0)},
                {"accuracy", summary.accuracy.value_or(0)},
                {"bytes_sent", sent ? json(*sent) : json()}};
    table.add({each.name, time ? fmt::format("{:.1f} s", *time) : "did not get there",
               ddp && time ? fmt::format("{:.1f}x", *ddp / *time) : "-",
               format_count(static_cast<double>(summary.steps.value_or(0))),
               fmt::format("{:.2f} %", summary.accuracy.value_or(0) * 100),
               sent ? format_bytes(*sent) : "-"});
    rows.push_back(std::move(row));
  }
  const std::string remarks =
      why_no_ddp +
      "Training time is from the first step until there is one model, evaluations left out; it "
      "ends "
      "when one of\nthem finds the goal. Bytes are what all workers sent in training, without the "
      "final mean.";
  const std::string what =
      fmt::format("{} workers train {} to {:g} % over {}", any.workers, any.train.model, goal * 100,
                  options.lab.empty() ? "loopback" : "links of " + options.lab);
  return {.table = table,
          .rows = rows,
          .conditions = {{"workers", any.workers}, {"goal", goal}, {"lab", options.lab}},
          .headline = what,
          .remarks = remarks,
          .plot = drawn(*options.progress, what)};
}

}  // namespace starling
