// starling launch: starts a program of the user's own as a flock of workers.
#include <fmt/format.h>

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

constexpr int kUsualWorkers = 2;

struct LaunchCommand {
  SettingsFlags settings;
  LaunchFlags where;
  RunFlags run;
  int workers = 0;  // not given
  std::vector<std::string> program;
  bool print_json = false;
};

void launch_once(const LaunchCommand& command) {
  TrainingPlan plan;
  plan.launch = command.where.plan();
  plan.launch.command = command.program;
  plan.settings = command.settings.unchecked();
  const bool engine_says = plan.launch.place || !plan.launch.hosts.empty();
  plan.settings.workers =
      engine_says ? LaunchFlags::workers_for(plan.launch, command.workers, 0)
                  : (command.workers > 0 ? command.workers : kUsualWorkers) * plan.launch.machines;
  check_settings(plan.settings);
  plan.label = command.settings.name();
  command.run.complete(plan);

  const auto [summary, outcome] = run_program(plan);
  for (const std::string& loss : outcome.losses) {
    fmt::print(stderr, "note: {}; the others went on without it\n", loss);
  }
  const std::string error = summary.ended ? describe_end(summary) : "";
  if (command.print_json) {
    nlohmann::json result = as_json(summary);
    result["exit_code"] = outcome.exit_code;
    result["error"] = error;
    fmt::print("{}\n", result.dump());
  } else if (!summary.ended && !summary.ranks.empty()) {  // none: they did not use Dist
    print_summary(summary);
  }
  if (outcome.exit_code != 0) {
    std::fflush(stdout);
    fmt::print(stderr, "error: {}\n", error);
    throw CLI::RuntimeError(outcome.exit_code);
  }
}

}  // namespace

void add_launch_command(CLI::App& app, std::vector<std::string> program) {
  auto command = std::make_shared<LaunchCommand>();
  CLI::App* launch = app.add_subcommand("launch", "Start your own program as several workers");
  launch->footer(
      "Behind -- stand the program, which uses starling::Dist (see examples/own_project), and its\n"
      "arguments. Settings given here reach it; what it prints comes out line by line behind the\n"
      "rank of its worker.\n\n"
      "Example:\n"
      "  starling launch -n 4 --strategy pairwise --period 4 -- ./my_program its arguments\n"
      "  starling launch -n 4 --system horovod --run runs/mine --live -- ./my_program\n"
      "  starling launch -n 4 --timeline --json -- ./my_program\n"
      "  starling launch --hosts a:4,b:4 -- ./my_program             by ssh\n"
      "  srun -n 4 starling launch -- ./my_program                   under Slurm");
  launch
      ->add_option("-n,--workers", command->workers,
                   "how many workers on this machine, or in all with --hosts")
      ->check(CLI::Range(1, 1024))
      ->default_str(std::to_string(kUsualWorkers));
  command->settings.add_to(*launch, SettingsFlags::Which::own_loop);
  command->where.add_to(*launch);
  command->run.add_to(*launch, RunFlags::Folder::if_asked);
  launch->add_flag("--json", command->print_json, "print the outcome as one JSON object, last");
  command->program = std::move(program);
  launch->callback([command] {
    if (command->program.empty()) throw CLI::RequiredError("A program behind --");
    launch_once(*command);
  });
}

}  // namespace starling
