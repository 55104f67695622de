// starling train: trains a network with several workers and tells what it cost and what it reached.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>

#include "base/error.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/launch_flags.h"
#include "cli/settings_flags.h"
#include "measure/training_run.h"
#include "report/run_data.h"
#include "report/run_folder.h"
#include "report/table.h"

namespace starling {

namespace {

struct TrainCommand {
  SettingsFlags settings;
  LaunchFlags where;
  std::string run_folder;
  std::optional<std::string> live;
  bool timeline = false;
  bool print_json = false;
};

// How stale gradients were, as bars; what is staler than the rows go is in the last.
void print_histogram(const std::vector<std::uint64_t>& counts, double all) {
  constexpr std::size_t kRows = 10;
  double rest = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const bool last = i + 1 == counts.size();
    rest += static_cast<double>(counts[i]);
    if (i + 1 >= kRows && !last) continue;
    std::string bar;
    for (double share = rest / all; share >= 0.0125; share -= 0.025) bar += "▇";
    fmt::print("  {:>13}{}  {:5.1f} %  {}\n", std::min(i, kRows - 1), i >= kRows ? "+" : " ",
               rest / all * 100, bar);
    rest = 0;
  }
}

std::string count_text(const std::optional<std::uint64_t>& count) {
  return format_count(static_cast<double>(count.value_or(0)));
}

void print_staleness(const StalenessSummary& staleness, const char* unit,
                     std::optional<std::uint64_t> all) {
  fmt::print("staleness       {:.2f} {} on average, {} at the most\n", staleness.mean.value_or(0),
             unit, staleness.max.value_or(0));
  if (staleness.max.value_or(0) > 0 && staleness.histogram) {
    print_histogram(*staleness.histogram, static_cast<double>(all.value_or(0)));
  }
}

void print_servers(const ServersSummary& servers) {
  fmt::print("servers         {} updates, {} gradients applied, {} dropped\n",
             count_text(servers.updates), count_text(servers.gradients_applied),
             count_text(servers.gradients_dropped));
  print_staleness(servers.staleness, "updates", servers.gradients_applied);
}

void print_kernel_count(const RunSummary& summary) {
  const double kernel = summary.sum(&RankSummary::kernel_bytes_sent);
  const double wire = summary.sum(&RankSummary::wire_bytes_sent);
  fmt::print("kernel's count  {} sent by all hosts, {:+.1f} % against our {}: headers and acks\n",
             format_bytes(kernel), (kernel / wire - 1) * 100, format_bytes(wire));
}

void print_mixing(const RunSummary& summary) {
  const MixingSummary& mixing = *summary.mixing;
  fmt::print(
      "graph           {}{}\n", summary.graph.value_or("?"),
      summary.spectral_gap ? fmt::format(", spectral gap {:.3f}", *summary.spectral_gap) : "");
  fmt::print(
      "mixing          {} rounds of all workers, {} models mixed in, {} skipped for a slow "
      "network\n",
      count_text(mixing.rounds), count_text(mixing.models), count_text(mixing.skipped));
  print_staleness(mixing.staleness, "steps", mixing.models);
  fmt::print("spread          {:.2f} % of the model's length, between the workers at the end\n",
             summary.spread.value_or(NAN) * 100);
}

std::vector<std::string> row_of(const RankSummary& rank, double seconds) {
  const auto bytes = [](const RankSummary::Bytes& count) {
    return format_bytes(static_cast<double>(count.value_or(0)));
  };
  const std::int64_t number = rank.rank.value_or(0);
  if (rank.role == RankSummary::Role::server) {
    return {fmt::format("server {}", number), "", bytes(rank.payload_bytes_sent),
            bytes(rank.wire_bytes_sent), ""};
  }
  const double waited = rank.waited_seconds.value_or(0);
  return {std::to_string(number), fmt::format("{:.2f} %", rank.accuracy.value_or(0) * 100),
          bytes(rank.payload_bytes_sent), bytes(rank.wire_bytes_sent),
          fmt::format("{:.1f} s ({:.0f} %)", waited, waited / seconds * 100)};
}

// What the workers would have sent if they had averaged every step's gradients around a ring.
void print_saving(const RunSummary& summary) {
  const auto workers = static_cast<double>(summary.workers.value_or(1));
  const double model = static_cast<double>(summary.parameters.value_or(0)) * 4;
  const double ring = 2 * (workers - 1) * model * static_cast<double>(summary.steps.value_or(0));
  const double ours = summary.sum(&RankSummary::training_bytes_sent);
  if (ring <= 0 || ours <= 0) return;
  fmt::print("all-reduce      sends {} in as many steps around a ring, by formula: {}\n",
             format_bytes(ring),
             ours < ring ? fmt::format("{:.1f} times as much", ring / ours)
                         : fmt::format("{:.0f} % of this", ring / ours * 100));
  fmt::print("                (the same command with --strategy allreduce shows it)\n");
}

void print_summary(const RunSummary& summary) {
  const double seconds = summary.seconds.value_or(0);
  const double train_seconds = summary.train_seconds.value_or(seconds);
  Table table({"worker", "accuracy", "payload sent", "wire sent", "waited"});
  for (const RankSummary& rank : summary.ranks) table.add(row_of(rank, train_seconds));
  fmt::print("{}\n", table.text());
  fmt::print("{}  {:.2f} % on the test samples\n",
             summary.mixing ? "averaged model" : "final model   ",
             summary.accuracy.value_or(0) * 100);
  fmt::print("training        {:.1f} epochs, {} steps, {:.1f} s, {} samples/s\n",
             summary.epochs.value_or(0), count_text(summary.steps), train_seconds,
             format_count(summary.samples_per_second.value_or(0)));
  fmt::print("evaluations     {:.1f} s, which do not count as training: {:.1f} s in all\n",
             seconds - train_seconds, seconds);
  fmt::print("sent by all     {} on the wire, {} of them in training\n",
             format_bytes(summary.sum(&RankSummary::wire_bytes_sent)),
             format_bytes(summary.sum(&RankSummary::training_bytes_sent)));
  if (summary.mixing) print_saving(summary);
  if (summary.has(&RankSummary::kernel_bytes_sent)) print_kernel_count(summary);
  if (summary.mixing) print_mixing(summary);
  if (summary.servers) print_servers(*summary.servers);
  for (const std::string& loss : summary.lost.value_or(std::vector<std::string>())) {
    fmt::print("lost            {}; the others went on\n", loss);
  }
  fmt::print("run folder      {}\n", summary.run.value_or(""));
}

// A run that was to go on until something, and ended without, is none that a script may build on.
constexpr int kNotReached = 3;

void check_reached(const Settings& settings, double accuracy) {
  const std::optional<double> target = target_accuracy(settings.train);
  if (!target || accuracy >= *target) return;
  fmt::print(
      stderr,
      "error: the final model has {:.2f} %, and --until wants {:g} %; give it more --epochs\n",
      accuracy * 100, *target * 100);
  throw CLI::RuntimeError(kNotReached);
}

void train_once(const TrainCommand& command) {
  TrainingPlan plan;
  plan.settings = command.settings.settings();
  plan.launch = command.where.plan();
  if (plan.settings.workers % plan.launch.machines != 0) {
    throw Error(fmt::format("{} workers cannot be shared out evenly among {} machines",
                            plan.settings.workers, plan.launch.machines),
                "--workers counts those of all machines");
  }
  plan.label = command.settings.name();
  plan.run_folder = command.run_folder.empty()
                        ? fresh_run_path(fmt::format("{}-{}", plan.label, plan.settings.workers))
                        : std::filesystem::path(command.run_folder);
  if (command.live) plan.live = parse_live_address(*command.live);
  plan.timeline = command.timeline;
  if (const auto remark = advice(plan.settings)) fmt::print(stderr, "note: {}\n", *remark);
  const RunSummary summary = run_training(plan);
  if (command.print_json) {
    fmt::print("{}\n", as_json(summary).dump());
  } else if (summary.accuracy) {
    print_summary(summary);
  }
  if (summary.accuracy) check_reached(plan.settings, *summary.accuracy);
}

}  // namespace

void add_train_command(CLI::App& app) {
  auto command = std::make_shared<TrainCommand>();
  CLI::App* train = app.add_subcommand("train", "Train a network with several workers");
  train->footer(
      "Example:\n"
      "  starling train --workers 4 --strategy pairwise --passes 1 --epochs 3 --lr 0.1\n"
      "  starling train --system horovod --data synthetic --epochs 10 --until accuracy=0.97\n"
      "  starling train --workers 4 --live --timeline");
  command->settings.add_to(*train, SettingsFlags::Which::all);
  command->where.add_to(*train);
  train->add_option("--run", command->run_folder,
                    "the run folder; by default a new one under runs/");
  train
      ->add_option("--live", command->live,
                   "show the run on a page as it goes, at 127.0.0.1:8070 or this ADDRESS:PORT; "
                   "its /metrics is for Prometheus")
      ->expected(0, 1);
  train->add_flag("--timeline", command->timeline,
                  "write what each worker did when to timeline.json, for ui.perfetto.dev");
  train->add_flag("--json", command->print_json, "print the result as one JSON object, last");
  train->callback([command] { train_once(*command); });
}

}  // namespace starling
