// starling launch: starts a program of the user's own as a flock of workers.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "cli/command.h"
#include "cli/launch_flags.h"
#include "cli/run_flags.h"
#include "cli/settings_flags.h"
#include "cli/store_flags.h"
#include "cli/summary_text.h"
#include "measure/training_run.h"

namespace starling {

namespace {

constexpr int kUsualWorkers = 2;

struct LaunchCommand {
  SettingsFlags settings;
  LaunchFlags where;
  RunFlags run;
  StoreFlags store;
  int workers = 0;  // not given
  std::string host_script;
  int slots_per_host = 0;
  std::vector<int> cooldown;
  std::optional<int> reset_limit;
  std::vector<std::string> program;
  bool print_json = false;

  int asked_workers() const { return workers > 0 ? workers : kUsualWorkers; }
};

// A job begins once there are places for as many workers as it should have, and with as many as there
// are places for then.
LaunchPlan::Discovery find_hosts(const LaunchCommand& command, const TrainingPlan& plan) {
  if (!plan.settings.elastic.on) {
    throw Error("a host discovery script is for workers that come and go", "give --elastic too");
  }
  if (plan.launch.machines > 1 || !plan.launch.lab.empty() || !plan.launch.hosts.empty()) {
    throw Error("a host discovery script says where workers run",
                "leave out --hosts, --machines and --lab, or --host-discovery-script");
  }
  LaunchPlan::Discovery hosts;
  hosts.script = command.host_script;
  hosts.usual_slots = command.slots_per_host;
  hosts.most_workers = std::max(plan.settings.elastic.max_workers, command.asked_workers());
  if (!command.cooldown.empty()) {
    hosts.cooldown = {std::chrono::seconds(command.cooldown[0]),
                      std::chrono::seconds(command.cooldown[1])};
    if (hosts.cooldown->least > hosts.cooldown->most) {
      throw Error(fmt::format("--blacklist-cooldown {} {} cannot be", command.cooldown[0],
                              command.cooldown[1]),
                  "the shortest time comes first");
    }
  }
  hosts.found = await_host_slots(hosts.script, hosts.usual_slots, command.asked_workers(),
                                 plan.launch.timeout * 10);
  return hosts;
}

void launch_once(const LaunchCommand& command) {
  TrainingPlan plan;
  plan.launch = command.where.plan();
  plan.launch.command = command.program;
  plan.settings = command.settings.unchecked();
  plan.launch.reset_limit = command.reset_limit;
  if (command.reset_limit && !plan.launch.hosts.empty()) {
    throw Error("--reset-limit counts on this machine, and --hosts starts workers on others",
                "leave out one of them");
  }
  StoredStart stored(command.store, plan.launch);
  if (!command.host_script.empty()) {
    const LaunchPlan::Discovery& hosts = plan.launch.discovery.emplace(find_hosts(command, plan));
    plan.settings.workers = std::min(slots_of(hosts.found), hosts.most_workers);
  } else if (plan.launch.place || !plan.launch.hosts.empty()) {
    plan.settings.workers = LaunchFlags::workers_for(plan.launch, command.workers, 0);
  } else {
    plan.settings.workers = command.asked_workers() * plan.launch.machines;
  }
  LaunchFlags::take_ranks(plan.launch, 0, plan.settings);
  check_settings(plan.settings);
  plan.label = command.settings.name();
  command.run.complete(plan);
  stored.enter(plan.settings, "", plan.launch);  // a program sees itself to its checkpoints

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
      "  starling launch --hosts a:4,b:4 -- ./my_program             by ssh\n"
      "  srun -n 4 starling launch -- ./my_program                   under Slurm\n"
      "  mpirun -np 4 starling launch --transport mpi --system horovod -- ./my_program\n"
      "  starling launch -n 2 --elastic --max-workers 8 --restarts 5 \\\n"
      "                  --host-discovery-script ./hosts.sh -- python3 train.py\n"
      "  starling launch -n 2 --elastic --store etcd://10.0.0.1:2379/my-job \\\n"
      "                  --secret-file secret.txt -- python3 train.py");
  launch
      ->add_option("-n,--workers", command->workers,
                   "how many workers on this machine, or in all with --hosts")
      ->check(CLI::Range(1, 1024))
      ->default_str(std::to_string(kUsualWorkers));
  const char* group = "Workers that come and go";
  launch
      ->add_option("--host-discovery-script", command->host_script,
                   "with --elastic: a program that prints which hosts there are now, name:slots a "
                   "line; it is run every second, and workers are started and stopped by it")
      ->group(group);
  launch
      ->add_option("--slots-per-host", command->slots_per_host,
                   "how many workers a host has of which the script does not say that")
      ->check(CLI::Range(1, 1024))
      ->group(group);
  launch
      ->add_option("--blacklist-cooldown", command->cooldown,
                   "for how many seconds a host on which a worker failed has none: at first and, "
                   "twice as long each time, at most; without it, for good")
      ->expected(2)
      ->check(CLI::Range(1, 1'000'000))
      ->group(group);
  launch
      ->add_option("--reset-limit", command->reset_limit,
                   "with --elastic: fail when workers have come or gone more often than that")
      ->check(CLI::Range(0, 1'000'000))
      ->group(group);
  command->settings.add_to(*launch, SettingsFlags::Which::own_loop);
  command->where.add_to(*launch);
  command->run.add_to(*launch, RunFlags::Folder::if_asked);
  command->store.add_to(*launch);
  launch->add_flag("--json", command->print_json, "print the outcome as one JSON object, last");
  command->program = std::move(program);
  launch->callback([command] {
    if (command->program.empty()) throw CLI::RequiredError("A program behind --");
    launch_once(*command);
  });
}

}  // namespace starling
