// starling train: trains a network with several workers and tells what it cost and what it reached.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/command.h"
#include "cli/launch_flags.h"
#include "cli/run_flags.h"
#include "cli/settings_flags.h"
#include "cli/summary_text.h"
#include "measure/training_run.h"

namespace starling {

namespace {

struct TrainCommand {
  SettingsFlags settings;
  LaunchFlags where;
  RunFlags run;
  bool print_json = false;
};

// A run that was to go on until something, and ended without, is none that a script may build on.
constexpr int kNotReached = 3;

void check_reached(const Settings& settings, const RunSummary& summary) {
  const std::optional<Target> target = target_of(settings.train);
  const double accuracy = summary.accuracy.value_or(0), loss = summary.loss.value_or(NAN);
  if (!target || target->reached(accuracy, loss)) return;
  const bool by_loss = target->measure == Target::Measure::loss;
  fmt::print(
      stderr, "error: the final model has {}, and --until wants {}; give it more --epochs\n",
      by_loss ? fmt::format("a loss of {:.4f}", loss) : fmt::format("{:.2f} %", accuracy * 100),
      by_loss ? fmt::format("{:g}", target->value) : fmt::format("{:g} %", target->value * 100));
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
  command.run.complete(plan);
  if (const auto remark = advice(plan.settings)) fmt::print(stderr, "note: {}\n", *remark);
  const RunSummary summary = run_training(plan);
  if (command.print_json) {
    fmt::print("{}\n", as_json(summary).dump());
  } else if (summary.accuracy) {
    print_summary(summary);
  }
  if (summary.accuracy) check_reached(plan.settings, summary);
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
  command->run.add_to(*train, RunFlags::Folder::always);
  train->add_flag("--json", command->print_json, "print the result as one JSON object, last");
  train->callback([command] { train_once(*command); });
}

}  // namespace starling
