#include "cli/training_run.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>

#include "base/error.h"
#include "base/units.h"
#include "cli/progress_bar.h"
#include "cli/run_folder.h"
#include "report/run_data.h"
#include "strategy/mix_plan.h"
#include "strategy/server_plan.h"

namespace starling {

namespace {

using nlohmann::json;

std::string describe(const json& progress, double accuracy) {
  const double time = number_in(progress, "time");
  const double step = number_in(progress, "step");
  const double steps = number_in(progress, "steps");
  const double left = step > 0 ? time / step * (steps - step) : 0;
  return fmt::format(
      "epoch {:.1f}  loss {:.3f}  accuracy {}  {} samples/s  {} sent/worker  {} left",
      number_in(progress, "epoch"), number_in(progress, "loss", NAN),
      accuracy < 0 ? "-" : fmt::format("{:.2f} %", accuracy * 100),
      format_count(number_in(progress, "samples_per_second")),
      format_bytes(number_in(progress, "payload_bytes_sent")),
      format_duration(std::chrono::seconds(static_cast<long>(left))));
}

}  // namespace

std::filesystem::path sibling_program(const std::string& name) {
  const std::filesystem::path program =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
  if (!std::filesystem::exists(program)) {
    throw Error(fmt::format("{} is missing beside the starling program", name),
                "build it with `make`; it needs libtorch-dev");
  }
  return program;
}

void add_servers(const Settings& settings, LaunchPlan& plan) {
  plan.servers = server_processes(settings);
  plan.server_command = {std::filesystem::read_symlink("/proc/self/exe"), "serve"};
  plan.survives_losses = survives_losses(settings);
}

json run_training(TrainingPlan plan) {
  RunFolder folder(plan.run_folder, plan.settings);
  plan.launch.command = {sibling_program("starling-trainer"), folder.path()};
  plan.launch.workers = plan.settings.workers / plan.launch.machines;
  plan.launch.settings = write_settings(plan.settings);
  add_servers(plan.settings, plan.launch);

  ProgressBar bar(plan.label);
  json result;
  double accuracy = -1;
  const LaunchResult outcome = launch(plan.launch, [&](int rank, std::string_view line) {
    const json event = json::parse(line, nullptr, false);
    if (!event.is_object()) return;
    folder.record(rank, event);
    const std::string kind = event.value("event", "");
    if (kind == "result") result = event;
    if (kind == "evaluation") {
      accuracy = number_in(event, "accuracy");
      bar.say(fmt::format(
          "{}: epoch {:.2f}  accuracy {:.2f} %  loss {:.4f}  {}", plan.label,
          number_in(event, "epoch"), accuracy * 100, number_in(event, "test_loss", NAN),
          format_duration(
              std::chrono::milliseconds(static_cast<long>(number_in(event, "time") * 1000)))));
    }
    if (kind == "progress" || kind == "evaluation") {
      bar.show(number_in(event, "step") / std::max(1.0, number_in(event, "steps")),
               describe(event, accuracy));
    }
  });
  if (outcome.interrupted) {
    bar.say("error: " + outcome.error);
    throw CLI::RuntimeError(outcome.exit_code);
  }
  if (outcome.exit_code != 0) throw Error(outcome.error);
  if (result.is_null()) {
    if (plan.launch.machine > 0) return {{"run", folder.path().string()}};  // rank 0 is elsewhere
    throw Error("the workers ended without a result");
  }
  result.erase("event");
  result["lost"] = outcome.losses;
  result["run"] = folder.path().string();
  if (is_mix(plan.settings)) {
    result["schedule"] = plan.settings.schedule;
    result["graph"] = graph_settings(plan.settings).name;
    if (const auto gap = graph_gap(plan.settings)) result["spectral_gap"] = *gap;
  }
  folder.finish(result);
  return result;
}

}  // namespace starling
