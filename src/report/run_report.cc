#include "report/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/units.h"
#include "base/whole_file.h"
#include "report/escape.h"

namespace starling {

namespace {

using nlohmann::json;

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
    Plot::Series series{run.name, {}, Plot::Kind::line};
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
          "Accuracy on the test samples, over the time of training, without that of evaluations.",
          plot};
}

Figure accuracy_over_bytes(std::span<const RunData> runs) {
  Plot plot = over_metrics(runs, "accuracy", 100, [](const RunData& run, const json& line) {
    return std::max(1.0, sent_by_all_until(run, number_in(line, "time")));
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
  plot.title = fmt::format("Network activity: {}", run.name);
  plot.x = {"time (s)", false, seconds};
  plot.y = {"sent each second", false, [](double rate) { return format_bytes(rate) + "/s"; }};
  for (auto& [rank, series] : ranks) plot.series.push_back(std::move(series));
  return {fmt::format("network-{}", number), "What each of them sent, second by second.", plot};
}

Figure staleness_of(const RunData& run, std::size_t number) {
  Plot plot;
  plot.title = fmt::format("Staleness: {}", run.name);
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
    plot.categories.push_back(runs[i].name);
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

TimeSplit time_of_workers(const RunSummary& summary) {
  if (!tells_time(summary)) return {};
  const double exchanging = summary.mean_of_workers(&RankSummary::waited_seconds);
  const double network =
      std::min(exchanging, summary.mean_of_workers(&RankSummary::network_seconds));
  return {std::max(0.0, summary.seconds.value_or(0) - exchanging), network, exchanging - network};
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
    plot.categories.push_back(runs[i].name);
  }
  return {"time-split",
          "Computing (evaluations included), moving and reducing bytes, and waiting for others or "
          "for the network.",
          plot};
}

Table comparison_of(std::span<const RunData> runs, std::size_t baseline) {
  Table table({"run", "strategy", "workers", "accuracy", "time", "samples/s", "computing",
               "moving bytes", "waiting", "sent in all", "in training", "saving"});
  const double reference = training_bytes(runs[baseline].summary);
  for (const RunData& run : runs) {
    const RunSummary& summary = run.summary;
    if (!summary.accuracy) {
      table.add({run.name, "(did not end)", "", "", "", "", "", "", "", "", "", ""});
      continue;
    }
    const double sent = training_bytes(summary);
    const double time = summary.seconds.value_or(0);
    const TimeSplit split = time_of_workers(summary);
    const auto share = [&](double part) {
      if (!tells_time(summary)) return std::string("-");
      return fmt::format("{:.0f} %", time > 0 ? part / time * 100 : 0);
    };
    table.add({run.name, summary.strategy.value_or("?"),
               fmt::format("{}", summary.workers.value_or(1)),
               fmt::format("{:.2f} %", *summary.accuracy * 100), fmt::format("{:.1f} s", time),
               format_count(summary.samples_per_second.value_or(0)), share(split.compute),
               share(split.network), share(split.wait),
               format_bytes(summary.sum(&RankSummary::wire_bytes_sent)), format_bytes(sent),
               reference > 0 ? fmt::format("{:.1f} %", (1 - sent / reference) * 100 + 0.0) : "-"});
  }
  return table;
}

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --ink: #1b1b1b; --paper: #ffffff; --line: #cccccc; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --paper: #16181b; --line: #444444; } }
body { font: 16px/1.5 "DejaVu Sans", Helvetica, Arial, sans-serif; color: var(--ink);
  background: var(--paper); max-width: 1200px; margin: 0 auto; padding: 1rem; }
figure { margin: 1.5rem 0; } figure svg { max-width: 100%; height: auto; border-radius: 6px; }
.wide { overflow-x: auto; } table { border-collapse: collapse; }
th, td { padding: .25rem .5rem; font-size: 14px; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } pre { overflow-x: auto; font-size: 13px; }
)";

std::string page_of(std::span<const RunData> runs, std::size_t baseline, const RunReport& report) {
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>Starling: {} runs</title>\n<style>{}</style></head><body>\n<h1>Starling: {} "
      "run{}</h1>\n",
      runs.size(), kStyle, runs.size(), runs.size() == 1 ? "" : "s");
  html += "<div class=\"wide\">" + report.comparison.html() + "</div>\n";
  html += fmt::format(
      "<p>Savings are of bytes sent in training, against {}. Computing, moving bytes and waiting "
      "are shares of a worker's "
      "time.</p>\n",
      escaped_for_markup(runs[baseline].name));
  for (const Figure& figure : report.figures) {
    html += fmt::format("<figure>{}<figcaption>{}</figcaption></figure>\n", figure.plot.svg(),
                        escaped_for_markup(figure.caption));
  }
  html += "<h2>Settings</h2>\n";
  for (const RunData& run : runs) {
    html += fmt::format("<details><summary>{}</summary><pre>{}</pre></details>\n",
                        escaped_for_markup(run.name), escaped_for_markup(run.settings));
  }
  return html + "</body></html>\n";
}

}  // namespace

RunReport report_on(std::span<const RunData> runs, std::size_t baseline) {
  RunReport report{{}, comparison_of(runs, baseline), ""};
  const auto has = [&](const char* key) {
    return std::ranges::any_of(runs, [&](const RunData& run) {
      return std::ranges::any_of(run.metrics, [&](const json& line) { return line.contains(key); });
    });
  };
  report.figures = {activity_and_accuracy(runs), accuracy_over_time(runs),
                    accuracy_over_bytes(runs), time_split(runs), loss_over_time(runs)};
  if (has("spread")) report.figures.push_back(spread_over_time(runs));
  for (std::size_t i = 0; i < runs.size(); ++i) {
    report.figures.push_back(network_of(runs[i], i + 1));
    if (runs[i].summary.staleness() != nullptr) {
      report.figures.push_back(staleness_of(runs[i], i + 1));
    }
  }
  report.html = page_of(runs, baseline, report);
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
