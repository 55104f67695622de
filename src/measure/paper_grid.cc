// starling measure --grid paper: the pair-wise averaging paper's experiments, beside its own numbers:
// its table 1 (all configurations), its table 2 (fewer passes, more iterations) and its figure 3,
// for everything that its "passes" may mean.
//
//   window      the mean with so many ring predecessors
//   repeat      the mean with one predecessor, so many times in a row
//   group       the mean within groups of one more, which change from round to round
//   accumulate  gradients of so many batches are added up before one all-reduce
//
// An iteration is an epoch over --samples. Readings that come to the same training share its runs: one
// pass is the same whether it is a window or repeated, and so are a window and a group of all.
// --only takes one table or figure, and what it needs: figure3 is done in minutes.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>

#include "base/units.h"
#include "measure/chosen.h"
#include "measure/grids.h"
#include "measure/paper_table.h"
#include "measure/seeds.h"
#include "measure/subject.h"
#include "measure/varied.h"
#include "report/run_data.h"

namespace starling {

namespace {

using nlohmann::json;

enum class Reading { window, repeat, group, accumulate };
constexpr Names<4> names_of(Reading) {
  return {"reading of passes", {"window", "repeat", "group", "accumulate"}};
}
constexpr Reading kReadings[] = {Reading::window, Reading::repeat, Reading::group,
                                 Reading::accumulate};

// One training of the paper's, read in one way.
struct Training {
  int workers;
  int passes;  // as many as workers: over all, as the paper has it
  int iterations;
  Reading reading;

  bool with_all() const { return passes == workers && reading != Reading::accumulate; }
  std::string name() const {
    std::string how = fmt::format("{}-{}", name_of(reading), passes);
    if (with_all()) {
      how = "accumulate-1";  // which is all-reduce at every step
    } else if ((reading == Reading::repeat && passes == 1) ||
               (reading == Reading::group && passes == workers - 1)) {
      how = fmt::format("window-{}", passes);
    }
    return fmt::format("workers-{}-{}-iterations-{}", workers, how, iterations);
  }
};

Training allreduce(int workers, int iterations) {
  return {workers, 1, iterations, Reading::accumulate};
}

Settings settings_of(const Training& training, Settings settings) {
  settings.workers = training.workers;
  settings.train.epochs = training.iterations;
  settings.train.evaluate_every = 0;  // which would take longer than training on so few samples
  if (training.with_all()) {
    settings.strategy = StrategyKind::allreduce;
  } else if (training.reading == Reading::accumulate) {
    settings.strategy = StrategyKind::allreduce;
    settings.backward_passes = training.passes;
  } else {
    using enum GraphSettings::Passes;
    settings.strategy = StrategyKind::pairwise;
    settings.mix.graph.passes = training.passes;
    settings.mix.graph.passes_mean = training.reading == Reading::window   ? window
                                     : training.reading == Reading::repeat ? repeat
                                                                           : group;
  }
  check_settings(settings);
  return settings;
}

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

// What adding up docker's statistics gives, which count from a container's start: the counters of all
// workers as they stand each second, both ways.
double counters_added_up(const RunData& run) {
  double sum = 0;
  for (const json& event : run.network) {
    sum += event.contains("kernel_sent")
               ? number_in(event, "kernel_sent") + number_in(event, "kernel_received")
               : wire_in(event["sent"]) + wire_in(event["received"]);
  }
  return sum;
}

struct Result {
  Sample accuracy, bytes, counters, seconds;
};

// What the paper's cells came to; each training once, from all seeds.
class Results {
 public:
  Results(const MeasureOptions& options, const Settings& common)
      : options_(options), common_(common) {}

  void want(const Training& training) {
    if (wanted_.emplace(training.name(), training).second) order_.push_back(training.name());
  }
  void measure() {
    options_.progress->expect(order_.size() * static_cast<std::size_t>(options_.seeds));
    for (const std::string& name : order_) {
      const Settings settings = settings_of(wanted_.at(name), common_);
      const std::vector<RunSummary> runs = measured_over_seeds(options_, settings, name);
      Result& result = results_[name];
      result.accuracy = sample_of(runs, [](const RunSummary& run) { return *run.accuracy; });
      result.bytes = sample_of(runs, network_bytes);
      result.seconds = sample_of(runs, [](const RunSummary& run) { return *run.seconds; });
      for (int i = 0; i < options_.seeds; ++i) {
        const auto folder = options_.folder / name / fmt::format("seed-{}", settings.seed + i);
        result.counters.values.push_back(counters_added_up(read_run(folder)));
      }
    }
  }
  const Result& of(const Training& training) const { return results_.at(training.name()); }
  // How far apart the seeds' bytes are, at the most.
  double largest_deviation_of_bytes() const {
    double largest = 0;
    for (const auto& [name, result] : results_) {
      largest = std::max(largest, result.bytes.deviation() / result.bytes.mean());
    }
    return largest;
  }

 private:
  const MeasureOptions& options_;
  Settings common_;
  std::map<std::string, Training> wanted_;
  std::vector<std::string> order_;
  std::map<std::string, Result> results_;
};

json as_json(const Training& training, const Result& result) {
  return {{"workers", training.workers},
          {"passes", training.passes},
          {"iterations", training.iterations},
          {"reading", name_of(training.reading)},
          {"accuracy", result.accuracy.mean()},
          {"accuracy_deviation", result.accuracy.deviation()},
          {"accuracies", result.accuracy.values},
          {"network_bytes", result.bytes.mean()},
          {"network_bytes_deviation", result.bytes.deviation()},
          {"counters_added_up_bytes", result.counters.mean()},
          {"seconds", result.seconds.mean()}};
}

// What is not sent of what the baseline sends; negative if more is.
std::string saving(double bytes, double baseline) {
  return fmt::format("{:.0f} %", (1 - bytes / baseline) * 100 + 0.0);
}

std::string cell(const Result& result) {
  return fmt::format("{}, {}", format_percent(result.accuracy), format_bytes(result.bytes.mean()));
}
std::string cell(const Result& result, const Result& baseline) {
  return fmt::format("{} ({})", cell(result), saving(result.bytes.mean(), baseline.bytes.mean()));
}

std::string passes_text(int passes, int workers) {
  return passes == workers ? fmt::format("{} (all)", passes) : std::to_string(passes);
}

// Table 1, as the cross product that it is.
MeasuredGrid::Part table1(const Results& results) {
  MeasuredGrid::Part part{
      .name = "table1",
      .headline =
          "The paper's table 1, every configuration: accuracy, and what all workers sent "
          "and received.",
      .table =
          Table({"workers", "passes", "iterations", "window", "repeat", "group", "accumulate"})};
  for (const PaperConfiguration& row : paper_configurations()) {
    std::vector<std::string> cells = {std::to_string(row.workers), std::to_string(row.passes),
                                      std::to_string(row.iterations)};
    for (Reading reading : kReadings) {
      const Training training{row.workers, row.passes, row.iterations, reading};
      cells.push_back(cell(results.of(training)));
      part.rows.push_back(as_json(training, results.of(training)));
    }
    part.table.add(cells);
  }
  return part;
}

Training default_of(const PaperRow& row) { return allreduce(row.workers, row.iterations); }

// Table 2 as the paper's figures are drawn: network activity, with the accuracy on it.
Plot drawn(const Results& results) {
  Plot plot;
  plot.title = "Network activity and accuracy (%), workers / passes";
  plot.y = {"sent and received by all workers", false,
            [](double bytes) { return format_bytes(bytes); }};
  plot.series = {{"all-reduce", {}, Plot::Kind::bars}, {"pair-wise", {}, Plot::Kind::bars}};
  for (const PaperRow& row : paper_table()) {
    const Result& result = results.of({row.workers, row.passes, row.iterations, Reading::window});
    const Plot::Point top{static_cast<double>(plot.categories.size()), result.bytes.mean()};
    plot.series[row.passes == row.workers ? 0 : 1].points.push_back(top);
    plot.notes.push_back({top, fmt::format("{:.1f}", result.accuracy.mean() * 100)});
    plot.categories.push_back(fmt::format("{}/{}", row.workers, row.passes));
  }
  return plot;
}

// Where fewer passes come with more iterations.
MeasuredGrid::Part table2(const Results& results) {
  MeasuredGrid::Part part{
      .name = "table2",
      .headline =
          "The paper's table 2: accuracy, what all workers sent and received, and how much "
          "less that is than all-reduce's at 12 iterations (negative: more).",
      .table = Table({"workers", "passes", "iterations", "window", "repeat", "group", "accumulate",
                      "Horovod's default", "paper's accuracy", "its network"})};
  double paper_baseline = 1;
  for (const PaperRow& row : paper_table()) {
    const Result& baseline = results.of(allreduce(row.workers, 12));
    if (row.passes == row.workers) paper_baseline = row.terabytes;
    std::vector<std::string> cells = {std::to_string(row.workers),
                                      passes_text(row.passes, row.workers),
                                      std::to_string(row.iterations)};
    for (Reading reading : kReadings) {
      const Training training{row.workers, row.passes, row.iterations, reading};
      cells.push_back(cell(results.of(training), baseline));
      json numbers = as_json(training, results.of(training));
      numbers["saving"] = 1 - results.of(training).bytes.mean() / baseline.bytes.mean();
      numbers["paper_terabytes"] = row.terabytes;
      numbers["paper_accuracy"] = row.accuracy;
      part.rows.push_back(numbers);
    }
    cells.push_back(cell(results.of(default_of(row)), baseline));
    cells.push_back(fmt::format("{:.2f} %", row.accuracy * 100));
    cells.push_back(
        fmt::format("{:.2f} TB ({})", row.terabytes, saving(row.terabytes, paper_baseline)));
    part.table.add(cells);
  }
  part.plot = drawn(results);
  return part;
}

// The paper's figure 3, its headline: network activity as bars, with the accuracy on them.
MeasuredGrid::Part figure3(const Results& results) {
  MeasuredGrid::Part part{
      .name = "figure3",
      .headline =
          "The paper's figure 3: 5 workers, all-reduce with 12 iterations, one pass with 12, "
          "one pass with 18.",
      .table = Table({"reading", "all-reduce, 12", "one pass, 12", "one pass, 18"})};
  Plot plot;
  plot.title = "5 workers: network activity, and accuracy (%)";
  plot.y = {"sent and received by all workers", false,
            [](double bytes) { return format_bytes(bytes); }};
  plot.series = {{"all-reduce", {}, Plot::Kind::bars}, {"one pass", {}, Plot::Kind::bars}};
  const Training all = allreduce(5, 12);
  for (Reading reading : kReadings) {
    std::vector<std::string> cells = {std::string(name_of(reading))};
    for (const Training& each : {all, Training{5, 1, 12, reading}, Training{5, 1, 18, reading}}) {
      cells.push_back(cell(results.of(each), results.of(all)));
      part.rows.push_back(as_json(each, results.of(each)));
      if (reading != Reading::window) continue;
      const Plot::Point top{static_cast<double>(plot.categories.size()),
                            results.of(each).bytes.mean()};
      plot.series[plot.categories.empty() ? 0 : 1].points.push_back(top);
      plot.notes.push_back(
          {top, fmt::format("{:.1f} ± {:.1f}", results.of(each).accuracy.mean() * 100,
                            results.of(each).accuracy.deviation() * 100)});
      plot.categories.push_back(fmt::format("{}, {} iterations",
                                            plot.categories.empty() ? "all-reduce" : "one pass",
                                            each.iterations));
    }
    part.table.add(cells);
  }
  part.table.add({"the paper", "91 %", "31 %", "89 %"});
  part.plot = plot;
  return part;
}

// Whether counters that were added up explain the paper's terabytes.
MeasuredGrid::Part counters(const Results& results) {
  MeasuredGrid::Part part{
      .name = "counters",
      .headline =
          "What the paper may have added up: the interfaces' counters as they stand each "
          "second. Beside each its share of all-reduce's with as many workers.",
      .table = Table({"workers", "passes", "iterations", "window", "its counters added up",
                      "Horovod's default", "its counters added up", "the paper's"})};
  double paper_baseline = 1;
  for (const PaperRow& row : paper_table()) {
    if (row.passes == row.workers) paper_baseline = row.terabytes;
    const Result& baseline = results.of(allreduce(row.workers, 12));
    std::vector<std::string> cells = {std::to_string(row.workers),
                                      passes_text(row.passes, row.workers),
                                      std::to_string(row.iterations)};
    const auto share = [](const Sample& bytes, const Sample& of) {
      return fmt::format("{} ({:.2f})", format_bytes(bytes.mean()), bytes.mean() / of.mean());
    };
    for (const Training& each :
         {Training{row.workers, row.passes, row.iterations, Reading::window}, default_of(row)}) {
      const Result& result = results.of(each);
      cells.push_back(share(result.bytes, baseline.bytes));
      cells.push_back(share(result.counters, baseline.counters));
      json numbers = as_json(each, result);
      numbers["paper_terabytes"] = row.terabytes;
      part.rows.push_back(numbers);
    }
    cells.push_back(
        fmt::format("{:.2f} TB ({:.2f})", row.terabytes, row.terabytes / paper_baseline));
    part.table.add(cells);
  }
  return part;
}

// The trainings that each takes, in four readings.
template <class Rows>
std::vector<Training> read_in_all_ways(const Rows& rows) {
  std::vector<Training> all;
  for (Reading reading : kReadings) {
    for (const auto& row : rows) all.push_back({row.workers, row.passes, row.iterations, reading});
  }
  return all;
}
std::vector<Training> trainings_of_figure3() {
  std::vector<Training> all = {allreduce(5, 12)};
  for (Reading reading : kReadings) {
    for (const int iterations : {12, 18}) all.push_back({5, 1, iterations, reading});
  }
  return all;
}
std::vector<Training> trainings_of_table1() { return read_in_all_ways(paper_configurations()); }
std::vector<Training> trainings_of_counters() {
  std::vector<Training> all;
  for (const PaperRow& row : paper_table()) {
    all.push_back({row.workers, row.passes, row.iterations, Reading::window});
    all.push_back(default_of(row));
  }
  return all;
}
std::vector<Training> trainings_of_table2() {
  std::vector<Training> all = trainings_of_counters();
  for (const Training& each : read_in_all_ways(paper_table())) all.push_back(each);
  return all;
}

struct PaperPart {
  const char* name;
  std::vector<Training> (*takes)();
  MeasuredGrid::Part (*make)(const Results&);
};
const std::vector<PaperPart> kParts = {{"table2", trainings_of_table2, table2},
                                       {"table1", trainings_of_table1, table1},
                                       {"figure3", trainings_of_figure3, figure3},
                                       {"counters", trainings_of_counters, counters}};

}  // namespace

MeasuredGrid measure_paper(const MeasureOptions& options) {
  Subject(options).check_has_accuracy("paper");
  check_left_to_grid(options, "paper", {"epochs", "steps"});
  Settings defaults;
  defaults.train.model = "cnn3";
  defaults.train.samples = 1000;
  defaults.train.test_samples = 1000;
  defaults.train.batch = 32;
  defaults.optimizer.lr = 0.05;
  const Settings common = options.settings_over(defaults);
  Results results(options, common);
  const std::vector<PaperPart> parts = chosen(kParts, options.only);
  for (const PaperPart& part : parts) {
    for (const Training& training : part.takes()) results.want(training);
  }
  results.measure();

  const MeasuredGrid::Part first = parts[0].make(results);
  const TrainSettings& train = common.train;
  MeasuredGrid grid{
      .table = first.table,
      .rows = first.rows,
      .conditions = {{"lab", options.lab}, {"seeds", options.seeds}},
      .headline = fmt::format(
          "{} on {} samples of {}, batches of {}, lr {:g}, momentum {:g}; mean and standard "
          "deviation "
          "of {} seeds on {} test samples. Network is what {} counted for all workers, both ways; "
          "seeds differ in it by {:.1f} % at the most.\n\n{}",
          train.model, train.samples, name_of(train.data), train.batch, common.optimizer.lr,
          common.optimizer.momentum, options.seeds,
          train.test_samples == 0 ? "all" : std::to_string(train.test_samples),
          options.lab.empty() ? "the ledger"
                              : fmt::format("the kernel on links of {}", options.lab),
          results.largest_deviation_of_bytes() * 100, first.headline),
      .plot = first.plot};
  for (const PaperPart& part : std::span(parts).subspan(1)) {
    grid.parts.push_back(part.make(results));
    grid.conditions[part.name] = grid.parts.back().rows;
  }
  return grid;
}

}  // namespace starling
