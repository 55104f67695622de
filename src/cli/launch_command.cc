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

struct LaunchCommand {
  SettingsFlags settings;
  LaunchFlags where;
  RunFlags run;
  int workers = 2;
  std::vector<std::string> program;
  bool print_json = false;
};

void launch_once(const LaunchCommand& command) {
  TrainingPlan plan;
  plan.launch = command.where.plan();
  plan.launch.command = command.program;
  plan.settings = command.settings.unchecked();
  plan.settings.workers = command.workers * plan.launch.machines;
  LaunchFlags::take_ranks(plan.launch, 0, plan.settings);
  check_settings(plan.settings);
  plan.label = command.settings.name();
  command.run.complete(plan);

  const auto [summary, outcome] = run_program(plan);
  for (const std::string& loss : outcome.losses) {
    fmt::print(stderr, "note: {}; the others went on without it\n", loss);
  }
  const std::string error = summary.ended ? describe_end(summary) : "";
  if (command.print_json && plan.launch.speaks()) {
    nlohmann::json result = as_json(summary);
    result["exit_code"] = outcome.exit_code;
    result["error"] = error;
    fmt::print("{}\n", result.dump());
  } else if (!summary.ended && !summary.ranks.empty() &&
             plan.launch.speaks()) {  // none: they did not use Dist
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
      "  mpirun -np 4 starling launch --transport mpi --system horovod -- ./my_program");
  launch->add_option("-n,--workers", command->workers, "how many workers on this machine")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
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
