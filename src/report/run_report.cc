#include "report/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "base/units.h"
#include "base/whole_file.h"
#include "report/report_page.h"
#include "report/run_labels.h"

namespace starling {

namespace {

using nlohmann::json;

constexpr std::size_t kMostLines = 8;  // in one figure, each in a colour of its own

std::string seconds(double value) { return fmt::format("{:g} s", value); }
std::string bytes(double value) { return format_bytes(value); }
std::string plain(double value) { return fmt::format("{:g}", value); }

// How much every worker had sent at a time: the last count of each before it.
double sent_by_all_until(const RunData& run, double time) {
  std::map<int, double> sent;
  for (const json& line : run.network) {
    if (number_in(line, "time") > time) continue;
    sent[static_cast<int>(number_in(line, "rank"))] = wire_in(line.value("sent", json()));
  }
  double sum = 0;
  for (const auto& [rank, count] : sent) sum += count;
  return sum;
}

// One line a run, from the lines of its metrics that have the value.
template <class X>
Plot over_metrics(std::span<const RunData> runs, const char* key, double scale, const X& x) {
  Plot plot;
  for (const RunData& run : runs) {
    Plot::Series series{run.label, {}, Plot::Kind::line};
    for (const json& line : run.metrics) {
      if (!line.contains(key)) continue;
      series.points.push_back({x(run, line), number_in(line, key) * scale});
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

// Without evaluations, where the run tells it.
double time_of(const RunData&, const json& line) {
  return number_in(line, "training_time", number_in(line, "time"));
}

Figure accuracy_over_time(std::span<const RunData> runs) {
  Plot plot = over_metrics(runs, "accuracy", 100, time_of);
  plot.title = "Accuracy over time";
  plot.x = {"training time (s)", false, seconds};
  plot.y = {"accuracy (%)", false, plain};
  return {"accuracy-time",
          "Accuracy on the test samples, over training time, in which evaluations do not count.",
          plot};
}

Figure accuracy_over_bytes(std::span<const RunData> runs) {
  Plot plot = over_metrics(runs, "accuracy", 100, [](const RunData& run, const json& line) {
    return sent_by_all_until(run, number_in(line, "time"));
  });
  plot.title = "Accuracy over bytes";
  plot.x = {"sent by all, on the wire", true, bytes};
  plot.y = {"accuracy (%)", false, plain};
  return {"accuracy-bytes", "The same, over what all workers and servers had sent by then.", plot};
}

Figure loss_over_time(std::span<const RunData> runs) {
  Plot plot = over_metrics(runs, "loss", 1, time_of);
  plot.title = "Training loss over time";
  plot.x = {"training time (s)", false, seconds};
  plot.y = {"loss", false, plain};
  return {"loss", "The loss on the lead's training batches.", plot};
}

Figure spread_over_time(std::span<const RunData> runs) {
  Plot plot = over_metrics(runs, "spread", 100, time_of);
  plot.title = "Spread between workers";
  plot.x = {"training time (s)", false, seconds};
  plot.y = {"distance from the mean (% of its length)", false, plain};
  return {"spread", "How far the workers' models were from their mean.", plot};
}

// Bytes each second, a line a rank; servers' ranks stand behind the workers'.
Figure network_of(const RunData& run, std::size_t number) {
  const auto role = [&](int rank) {
    if (!run.summary.workers) return "rank";  // the run did not end, and does not tell
    return rank < *run.summary.workers ? "worker" : "server";
  };
  std::map<int, Plot::Series> ranks;
  std::map<int, Plot::Point> before;
  for (const json& line : run.network) {
    const int rank = static_cast<int>(number_in(line, "rank"));
    const Plot::Point now{number_in(line, "time"), wire_in(line.value("sent", json()))};
    Plot::Series& series = ranks[rank];
    series.name = fmt::format("{} {}", role(rank), rank);
    series.kind = Plot::Kind::line;
    if (const auto last = before.find(rank); last != before.end() && now.x > last->second.x) {
      series.points.push_back({now.x, (now.y - last->second.y) / (now.x - last->second.x)});
    }
    before[rank] = now;
  }
  Plot plot;
  plot.title = fmt::format("Network activity: {}", run.label);
  plot.x = {"time (s)", false, seconds};
  plot.y = {"sent each second", false, [](double rate) { return format_bytes(rate) + "/s"; }};
  for (auto& [rank, series] : ranks) plot.series.push_back(std::move(series));
  return {fmt::format("network-{}", number), "What each of them sent, second by second.", plot};
}

Figure staleness_of(const RunData& run, std::size_t number) {
  Plot plot;
  plot.title = fmt::format("Staleness: {}", run.label);
  plot.y = {"count", false, plain};
  const bool servers = run.summary.servers.has_value();
  plot.x.label = servers ? "updates between reading and writing" : "steps behind the reader";
  Plot::Series series{servers ? "gradients" : "models", {}, Plot::Kind::bars};
  if (const StalenessSummary* seen = run.summary.staleness(); seen && seen->histogram) {
    for (const std::uint64_t count : *seen->histogram) {
      const double place = static_cast<double>(series.points.size());
      series.points.push_back({place, static_cast<double>(count)});
    }
  }
  plot.series.push_back(std::move(series));
  return {fmt::format("staleness-{}", number), "How stale what was applied was.", plot};
}

// What all sent from the first step to the last. A run that was not ours tells no more than
// what it sent in all.
double training_bytes(const RunSummary& summary) {
  return summary.sum(summary.has(&RankSummary::training_bytes_sent)
                         ? &RankSummary::training_bytes_sent
                         : &RankSummary::wire_bytes_sent);
}

// The figure of the pair-wise averaging paper: network activity as bars, accuracy written on them.
Figure activity_and_accuracy(std::span<const RunData> runs) {
  Plot plot;
  plot.title = "Network activity and accuracy";
  plot.y = {"sent by all, on the wire", false, bytes};
  plot.series = {{"in training", {}, Plot::Kind::bars},
                 {"evaluations, mean", {}, Plot::Kind::bars}};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Plot::Point top{static_cast<double>(i),
                          runs[i].summary.sum(&RankSummary::wire_bytes_sent)};
    const double training = training_bytes(runs[i].summary);
    plot.series[0].points.push_back({top.x, training});
    plot.series[1].points.push_back({top.x, std::max(0.0, top.y - training)});
    plot.categories.push_back(runs[i].label);
    if (const auto accuracy = runs[i].summary.accuracy) {
      plot.notes.push_back({top, fmt::format("{:.2f} %", *accuracy * 100)});
    }
  }
  return {"activity",
          "All bytes sent, with the accuracy that was reached: in training itself, and beside it "
          "for the first weights, evaluations and the final mean.",
          plot};
}

// Where a worker's time went, on average over the workers.
struct TimeSplit {
  double compute = 0, network = 0, wait = 0;  // in seconds
};

// A run that was not ours may not tell.
bool tells_time(const RunSummary& summary) { return summary.has(&RankSummary::waited_seconds); }

// From the first step until there was one model, without evaluations.
double training_seconds(const RunSummary& summary) { return summary.train_seconds.value_or(0); }

TimeSplit time_of_workers(const RunSummary& summary) {
  if (!tells_time(summary)) return {};
  const double exchanging = summary.mean_of_workers(&RankSummary::waited_seconds);
  const double network =
      std::min(exchanging, summary.mean_of_workers(&RankSummary::network_seconds));
  return {std::max(0.0, training_seconds(summary) - exchanging), network, exchanging - network};
}

Figure time_split(std::span<const RunData> runs) {
  Plot plot;
  plot.title = "Where the time went";
  plot.y = {"time of a worker, on average (s)", false, seconds};
  plot.series = {{"computing", {}, Plot::Kind::bars},
                 {"moving bytes", {}, Plot::Kind::bars},
                 {"waiting", {}, Plot::Kind::bars}};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const TimeSplit split = time_of_workers(runs[i].summary);
    const double place = static_cast<double>(i);
    plot.series[0].points.push_back({place, split.compute});
    plot.series[1].points.push_back({place, split.network});
    plot.series[2].points.push_back({place, split.wait});
    plot.categories.push_back(runs[i].label);
  }
  return {"time-split",
          "Training time: computing, moving and reducing bytes, and waiting for others or "
          "for the network.",
          plot};
}

// Of mixing, by all workers together.
std::string rounds_of(const RunSummary& summary) {
  if (!summary.mixing || !summary.mixing->rounds) return "-";
  return format_count(static_cast<double>(*summary.mixing->rounds));
}

Table comparison_of(std::span<const RunData> runs, std::size_t baseline) {
  // What matters first stands first: on a phone the rest is a swipe away.
  Table table({"run", "accuracy", "training time", "samples/s", "sent in all", "in training",
               "saving", "computing", "moving bytes", "waiting", "rounds", "workers", "strategy"});
  const double reference = training_bytes(runs[baseline].summary);
  for (const RunData& run : runs) {
    const RunSummary& summary = run.summary;
    if (!summary.accuracy) {
      table.add({run.label, "did not end", "", "", "", "", "", "", "", "", "", "", ""});
      continue;
    }
    const double sent = training_bytes(summary);
    const double time = training_seconds(summary);
    const TimeSplit split = time_of_workers(summary);
    const auto share = [&](double part) {
      if (!tells_time(summary)) return std::string("-");
      return fmt::format("{:.0f} %", time > 0 ? part / time * 100 : 0);
    };
    const bool comparable = reference > 0 && alike(run, runs[baseline]);
    table.add({run.label, fmt::format("{:.2f} %", *summary.accuracy * 100),
               fmt::format("{:.1f} s", time), format_count(summary.samples_per_second.value_or(0)),
               format_bytes(summary.sum(&RankSummary::wire_bytes_sent)), format_bytes(sent),
               comparable ? fmt::format("{:.1f} %", (1 - sent / reference) * 100 + 0.0) : "-",
               share(split.compute), share(split.network), share(split.wait), rounds_of(summary),
               fmt::format("{}", summary.workers.value_or(1)), summary.strategy.value_or("?")});
  }
  return table;
}

// Those that lines are drawn of in colours, until somebody chooses others: the baseline and the most
// accurate.
std::vector<bool> shown_first(std::span<const RunData> runs, std::size_t baseline) {
  std::vector<std::size_t> order(runs.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) {
    return i == baseline ? 2 : runs[i].summary.accuracy.value_or(0);
  });
  std::vector<bool> shown(runs.size(), false);
  for (std::size_t i = 0; i < std::min(order.size(), kMostLines); ++i) shown[order[i]] = true;
  return shown;
}

std::vector<std::string> remarks_on(std::span<const RunData> runs) {
  std::vector<std::string> remarks;
  if (const std::vector<std::string> differences = unlike(runs); !differences.empty()) {
    remarks.push_back(fmt::format(
        "these runs did not learn the same, so their accuracies and bytes do not compare: {}",
        fmt::join(differences, "; ")));
  }
  return remarks;
}

}  // namespace

RunReport report_on(std::vector<RunData> runs, std::size_t baseline) {
  const std::vector<std::string> labels = run_labels(runs);
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i].label = labels[i];
  RunReport report{{}, comparison_of(runs, baseline), remarks_on(runs), ""};
  const auto has = [&](const char* key) {
    return std::ranges::any_of(runs, [&](const RunData& run) {
      return std::ranges::any_of(run.metrics, [&](const json& line) { return line.contains(key); });
    });
  };
  std::vector<Figure> lines = {accuracy_over_time(runs), accuracy_over_bytes(runs),
                               loss_over_time(runs)};
  if (has("spread")) lines.push_back(spread_over_time(runs));
  const std::vector<bool> shown = shown_first(runs, baseline);
  for (Figure& figure : lines) {
    figure.has_run_lines = true;
    for (std::size_t i = 0; i < runs.size(); ++i) figure.plot.series[i].quiet = !shown[i];
  }
  report.figures = std::move(lines);
  report.figures.push_back(activity_and_accuracy(runs));
  report.figures.push_back(time_split(runs));
  for (std::size_t i = 0; i < runs.size(); ++i) {
    report.figures.push_back(network_of(runs[i], i + 1));
    report.figures.back().run = i;
    if (runs[i].summary.staleness() != nullptr) {
      report.figures.push_back(staleness_of(runs[i], i + 1));
      report.figures.back().run = i;
    }
  }
  report.html = report_page(runs, baseline, shown, report);
  return report;
}

void write_report(const RunReport& report, const std::filesystem::path& folder) {
  const auto write = [&](const std::string& name, const std::string& text) {
    write_whole_file(folder / name, text);
  };
  std::error_code shown_by_write;
  std::filesystem::create_directories(folder, shown_by_write);
  write("index.html", report.html);
  write("comparison.md", report.comparison.markdown());
  write("comparison.csv", report.comparison.csv());
  for (const Figure& figure : report.figures) {
    const std::string svg = figure.plot.svg();
    write(figure.name + ".svg", svg);
    write_png(svg, folder / (figure.name + ".png"));
  }
}

}  // namespace starling
