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

using nlohmann::json;

struct TrainCommand {
  SettingsFlags settings;
  LaunchFlags where;
  std::string run_folder;
  std::optional<std::string> live;
  bool timeline = false;
  bool print_json = false;
};

// How stale gradients were, as bars; what is staler than the rows go is in the last.
void print_histogram(const json& counts, double all) {
  constexpr std::size_t kRows = 10;
  double rest = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const bool last = i + 1 == counts.size();
    rest += counts[i].get<double>();
    if (i + 1 >= kRows && !last) continue;
    std::string bar;
    for (double share = rest / all; share >= 0.0125; share -= 0.025) bar += "▇";
    fmt::print("  {:>13}{}  {:5.1f} %  {}\n", std::min(i, kRows - 1), i >= kRows ? "+" : " ",
               rest / all * 100, bar);
    rest = 0;
  }
}

void print_servers(const json& servers) {
  fmt::print("servers         {} updates, {} gradients applied, {} dropped\n",
             format_count(servers["updates"]), format_count(servers["gradients_applied"]),
             format_count(servers["gradients_dropped"]));
  fmt::print("staleness       {:.2f} updates on average, {} at the most\n",
             servers["staleness_mean"].get<double>(),
             servers["staleness_max"].get<std::uint64_t>());
  if (servers["staleness_max"].get<std::uint64_t>() > 0) {
    print_histogram(servers["staleness_histogram"], servers["gradients_applied"].get<double>());
  }
}

void print_kernel_count(const json& summary) {
  const auto all = [&](const char* key) {
    double sum = 0;
    for (const json& each : summary[key]) sum += each.get<double>();
    return sum;
  };
  const double kernel = all("kernel_bytes_sent"), wire = all("wire_bytes_sent");
  fmt::print("kernel's count  {} sent by all hosts, {:+.1f} % against our {}: headers and acks\n",
             format_bytes(kernel), (kernel / wire - 1) * 100, format_bytes(wire));
}

void print_mixing(const json& summary) {
  const json& mixing = summary["mixing"];
  fmt::print("graph           {}{}\n", summary["graph"].get<std::string>(),
             summary.contains("spectral_gap")
                 ? fmt::format(", spectral gap {:.3f}", summary["spectral_gap"].get<double>())
                 : "");
  fmt::print(
      "mixing          {} rounds of all workers, {} models mixed in, {} skipped for a slow "
      "network\n",
      format_count(mixing["rounds"]), format_count(mixing["models"]),
      format_count(mixing["skipped"]));
  fmt::print("staleness       {:.2f} steps on average, {} at the most\n",
             mixing["staleness_mean"].get<double>(), mixing["staleness_max"].get<std::uint64_t>());
  if (mixing["staleness_max"].get<std::uint64_t>() > 0) {
    print_histogram(mixing["staleness_histogram"], mixing["models"].get<double>());
  }
  fmt::print("spread          {:.2f} % of the model's length, between the workers at the end\n",
             number_in(summary, "spread", NAN) * 100);
}

// What the workers would have sent if they had averaged every step's gradients around a ring.
void print_saving(const json& summary) {
  const double workers = summary["workers"], model = summary["parameters"].get<double>() * 4;
  const double ring = 2 * (workers - 1) * model * summary["steps"].get<double>();
  const double ours = sum_in(summary, "training_bytes_sent");
  if (ring <= 0 || ours <= 0) return;
  fmt::print("all-reduce      sends {} in as many steps around a ring, by formula: {}\n",
             format_bytes(ring),
             ours < ring ? fmt::format("{:.1f} times as much", ring / ours)
                         : fmt::format("{:.0f} % of this", ring / ours * 100));
  fmt::print("                (the same command with --strategy allreduce shows it)\n");
}

void print_summary(const json& summary) {
  Table table({"worker", "accuracy", "payload sent", "wire sent", "waited"});
  const std::size_t workers = summary["worker_accuracy"].size();
  for (std::size_t i = 0; i < workers; ++i) {
    table.add({std::to_string(summary["worker_rank"][i].get<int>()),
               fmt::format("{:.2f} %", summary["worker_accuracy"][i].get<double>() * 100),
               format_bytes(summary["payload_bytes_sent"][i]),
               format_bytes(summary["wire_bytes_sent"][i]),
               fmt::format("{:.1f} s ({:.0f} %)", summary["waited_seconds"][i].get<double>(),
                           summary["waited_seconds"][i].get<double>() /
                               summary["train_seconds"].get<double>() * 100)});
  }
  // A server's rank stands behind those of all workers, of whom some may be lost.
  std::size_t rank = summary["workers"];
  for (std::size_t i = workers; i < summary["wire_bytes_sent"].size(); ++i, ++rank) {
    table.add({fmt::format("server {}", rank), "", format_bytes(summary["payload_bytes_sent"][i]),
               format_bytes(summary["wire_bytes_sent"][i]), ""});
  }
  fmt::print("{}\n", table.text());
  const bool averaged = summary.contains("mixing");
  fmt::print("{}  {:.2f} % on the test samples\n", averaged ? "averaged model" : "final model   ",
             summary["accuracy"].get<double>() * 100);
  const double train_seconds = summary["train_seconds"], seconds = summary["seconds"];
  fmt::print("training        {:.1f} epochs, {} steps, {:.1f} s, {} samples/s\n",
             summary["epochs"].get<double>(), format_count(summary["steps"]), train_seconds,
             format_count(summary["samples_per_second"]));
  fmt::print("evaluations     {:.1f} s, which do not count as training: {:.1f} s in all\n",
             seconds - train_seconds, seconds);
  fmt::print("sent by all     {} on the wire, {} of them in training\n",
             format_bytes(sum_in(summary, "wire_bytes_sent")),
             format_bytes(sum_in(summary, "training_bytes_sent")));
  if (averaged) print_saving(summary);
  if (summary.contains("kernel_bytes_sent")) print_kernel_count(summary);
  if (summary.contains("mixing")) print_mixing(summary);
  if (summary.contains("servers")) print_servers(summary["servers"]);
  for (const json& loss : summary["lost"]) {
    fmt::print("lost            {}; the others went on\n", loss.get<std::string>());
  }
  fmt::print("run folder      {}\n", summary["run"].get<std::string>());
}

// A run that was to go on until something, and ended without, is none that a script may build on.
constexpr int kNotReached = 3;

void check_reached(const Settings& settings, const json& summary) {
  const std::optional<double> target = target_accuracy(settings);
  const double accuracy = number_in(summary, "accuracy");
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
  const json summary = run_training(plan);
  if (command.print_json) {
    fmt::print("{}\n", summary.dump());
  } else if (summary.contains("accuracy")) {
    print_summary(summary);
  }
  if (summary.contains("accuracy")) check_reached(plan.settings, summary);
}

}  // namespace

void add_train_command(CLI::App& app) {
  auto command = std::make_shared<TrainCommand>();
  CLI::App* train = app.add_subcommand("train", "Train a network with several workers");
  train->footer(
      "Example:\n"
      "  starling train --workers 4 --strategy pairwise --passes 1 --epochs 3 --lr 0.1\n"
      "  starling train --system horovod --data synthetic --until accuracy=0.97\n"
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
