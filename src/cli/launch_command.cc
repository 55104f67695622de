// starling launch: starts a program of the user's own as a flock of workers.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/command.h"
#include "cli/launch_flags.h"
#include "cli/settings_flags.h"
#include "launch/add_servers.h"

namespace starling {

namespace {

struct LaunchCommand {
  SettingsFlags settings;
  LaunchFlags where;
  int workers = 2;
  std::vector<std::string> program;
  bool print_json = false;
};

void launch_once(const LaunchCommand& command) {
  LaunchPlan plan = command.where.plan();
  plan.workers = command.workers;
  plan.command = command.program;
  Settings settings = command.settings.unchecked();
  settings.workers = plan.workers * plan.machines;
  check_settings(settings);
  plan.settings = write_settings(settings);
  add_servers(settings, plan);

  const LaunchResult outcome = launch(plan, [](int, std::string_view) {});
  for (const std::string& loss : outcome.losses) {
    fmt::print(stderr, "note: {}; the others went on without it\n", loss);
  }
  if (command.print_json) {
    const nlohmann::json result = {
        {"workers", settings.workers}, {"exit_code", outcome.exit_code}, {"error", outcome.error}};
    fmt::print("{}\n", result.dump());
  }
  if (outcome.exit_code != 0) {
    fmt::print(stderr, "error: {}\n", outcome.error);
    throw CLI::RuntimeError(outcome.exit_code);
  }
}

}  // namespace

void add_launch_command(CLI::App& app, std::vector<std::string> program) {
  auto command = std::make_shared<LaunchCommand>();
  CLI::App* launch = app.add_subcommand("launch", "Start your own program as several workers");
  launch->footer(
      "Behind -- stand the program, which uses starling::Dist (see examples/own_project), and its\n"
      "arguments; settings given here reach it.\n\n"
      "Example:\n"
      "  starling launch -n 4 --strategy pairwise --period 4 -- ./my_program its arguments");
  launch->add_option("-n,--workers", command->workers, "how many workers on this machine")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->settings.add_to(*launch, SettingsFlags::Which::own_loop);
  command->where.add_to(*launch);
  launch->add_flag("--json", command->print_json, "print the outcome as one JSON object, last");
  command->program = std::move(program);
  launch->callback([command] {
    if (command->program.empty()) throw CLI::RequiredError("A program behind --");
    launch_once(*command);
  });
}

}  // namespace starling
