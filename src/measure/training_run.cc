#include "measure/training_run.h"

#include <fmt/format.h>

#include <map>

#include "base/error.h"
#include "base/units.h"
#include "job/timeline_file.h"
#include "launch/add_servers.h"
#include "launch/blas_kernels.h"
#include "launch/lab.h"
#include "launch/programs.h"
#include "measure/live_view.h"
#include "measure/run_bar.h"
#include "report/run_folder.h"
#include "strategy/mix_plan.h"

namespace starling {

using nlohmann::json;

namespace {

// On a host that the kernel slows down, the worker need not do so itself.
Settings settings_for_workers(TrainingPlan& plan) {
  Settings settings = plan.settings;
  const auto slow = slow_worker(settings);
  if (slow && can_slow_hosts(plan.launch.lab)) {
    plan.launch.slow_hosts[slow->who] = slow->factor;
    settings.slow.clear();
  }
  return settings;
}

void write_timeline(RunFolder& folder, RunBar& bar) {
  try {
    const std::uint64_t left_out = join_timeline(folder.path());
    bar.say(fmt::format("timeline: {}, for ui.perfetto.dev{}",
                        (folder.path() / "timeline.json").string(),
                        left_out == 0 ? ""
                                      : fmt::format("; {} spans at the end had no place in it",
                                                    format_count(static_cast<double>(left_out)))));
  } catch (const Error& error) {
    folder.miss(error.what());  // no reason to do without a summary
  }
}

}  // namespace

RunSummary run_training(TrainingPlan plan) {
  RunFolder folder(plan.run_folder, plan.settings);
  plan.launch.command = {sibling_program("starling-trainer"), folder.path()};
  plan.launch.workers = plan.settings.workers / plan.launch.machines;
  plan.launch.settings = write_settings(settings_for_workers(plan));
  if (plan.timeline) plan.launch.timeline_folder = folder.path();
  add_servers(plan.settings, plan.launch);

  RunBar bar(plan.label, plan.grid);
  LiveView live(plan, folder.path(), bar);
  std::optional<RunSummary> result;
  std::map<int, RankSummary> served;  // by rank
  const auto take_event = [&](int rank, std::string_view line) {
    const json event = json::parse(line, nullptr, false);
    if (!event.is_object()) return;
    live.take(rank, event);
    const std::string kind = event.value("event", "");
    if (kind == "result" && !result) result = run_summary_in(event);
    if (kind == "served") served[rank] = server_summary_in(event, rank);
    const bool was_complete = folder.missing().empty();
    folder.record(rank, event);
    if (was_complete && !folder.missing().empty()) {
      bar.say(fmt::format("note: {}; the training goes on", folder.missing()));
    }
    bar.take(event);
  };
  const auto take_end = [&](int rank, const std::string& reason) {
    live.take_end(rank, reason);
    if (!reason.empty() && plan.launch.survives_losses) bar.say("note: " + reason);
  };
  const LaunchResult outcome = launch(plan.launch, take_event, take_end);
  live.finish(outcome.interrupted ? "" : outcome.error);
  if (plan.timeline) write_timeline(folder, bar);
  if (outcome.interrupted) {
    bar.say("error: " + outcome.error);
    throw Interrupted(outcome);
  }
  // Once there is a result, the model is saved, and whoever is lost afterwards takes nothing away.
  if (outcome.exit_code != 0 && !result) throw Error(outcome.error);
  if (!result) {
    if (plan.launch.machine == 0) throw Error("the workers ended without a result");
    RunSummary elsewhere;  // where rank 0 is
    elsewhere.run = folder.path().string();
    return elsewhere;
  }
  for (const auto& [rank, server] : served) result->ranks.push_back(server);
  result->lost = outcome.losses;
  if (outcome.exit_code != 0) result->lost->push_back(outcome.error);
  result->run = folder.path().string();
  result->blas_kernels = blas_kernels().name;
  if (!plan.launch.lab.empty()) result->lab = plan.launch.lab;
  if (is_mix(plan.settings)) {
    result->schedule = name_of(plan.settings.schedule.kind);
    result->graph = name_of(graph_kind(plan.settings));
    result->spectral_gap = graph_gap(plan.settings);
  }
  live.sum_up(*result);
  folder.finish(*result);
  return *result;
}

}  // namespace starling
