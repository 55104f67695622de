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
#include "cli/store_flags.h"
#include "cli/summary_text.h"
#include "measure/resume.h"
#include "measure/training_run.h"

namespace starling {

namespace {

struct TrainCommand {
  SettingsFlags settings;
  LaunchFlags where;
  RunFlags run;
  StoreFlags store;
  std::string resume;
  bool print_json = false;
};

// A run that was to go on until something, and ended without, is none that a script may build on.
constexpr int kNotReached = 3;

void check_reached(const Settings& settings, const RunSummary& summary) {
  const std::optional<Target> target = target_of(settings.train);
  const double accuracy = summary.accuracy.value_or(0), loss = summary.loss.value_or(NAN);
  if (!target || target->reached(accuracy, loss)) return;
  fmt::print(stderr, "error: {}\n", describe_missed(*target, summary));
  throw CLI::RuntimeError(kNotReached);
}

void train_once(const TrainCommand& command) {
  TrainingPlan plan;
  plan.launch = command.where.plan();
  StoredStart stored(command.store, plan.launch);
  const std::string resume =
      command.resume.empty() ? stored.run_to_resume(command.run.path()) : command.resume;
  const bool resumes = !resume.empty();
  const Settings then = resumes ? settings_of_run(resume) : Settings();
  plan.settings = command.settings.unchecked(then);
  plan.settings.workers = LaunchFlags::workers_for(plan.launch, command.settings.workers_given(),
                                                   plan.settings.workers);
  LaunchFlags::take_ranks(plan.launch, command.settings.workers_given(), plan.settings);
  if (resumes) check_resumed(resume, then, plan.settings);
  check_settings(plan.settings);
  if (resumes) plan.resume = checkpoint_to_resume(resume);
  if (plan.settings.workers % plan.launch.machines != 0) {
    throw Error(fmt::format("{} workers cannot be shared out evenly among {} machines",
                            plan.settings.workers, plan.launch.machines),
                "--workers counts those of all machines");
  }
  plan.label = resumes ? std::string(name_of(plan.settings.strategy)) : command.settings.name();
  command.run.complete(plan);
  if (resumes) plan.run_folder = resume;
  stored.enter(plan.settings, plan.run_folder, plan.launch);
  const auto remark = advice(plan.settings);
  if (remark && plan.launch.speaks()) fmt::print(stderr, "note: {}\n", *remark);
  const RunSummary summary = run_training(plan);
  if (!plan.launch.speaks()) return;
  if (command.print_json) {
    fmt::print("{}\n", as_json(summary).dump());
  } else if (summary.accuracy) {
    print_summary(summary);
  } else if (summary.ended) {
    fmt::print("{}\n", describe_end(summary));
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
      "  starling train --workers 4 --live --timeline\n"
      "  starling train --workers 4 --epochs 20 --checkpoint-every 30s --run runs/long\n"
      "  starling train --resume runs/long --workers 3\n"
      "  starling train --elastic --checkpoint-every 30s --store etcd://10.0.0.1:2379/my-job \\\n"
      "                 --secret-file secret.txt                     again: goes on if all have "
      "gone\n"
      "  starling train --hosts a:4,b:4 --system pairwise            by ssh\n"
      "  srun -n 4 starling train --system pairwise                  under Slurm\n"
      "  mpirun -np 4 starling train --transport mpi --system pairwise");
  command->settings.add_to(*train, SettingsFlags::Which::all);
  command->where.add_to(*train);
  command->run.add_to(*train, RunFlags::Folder::always);
  command->store.add_to(*train);
  train
      ->add_option(
          "--resume", command->resume,
          "go on with the run in this folder from its newest checkpoint, with its settings; "
          "--workers may be another number, and --epochs more")
      ->excludes("--run");
  train->add_flag("--json", command->print_json, "print the result as one JSON object, last");
  train->callback([command] { train_once(*command); });
}

}  // namespace starling
