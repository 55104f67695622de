#include "measure/training_run.h"

#include <fmt/format.h>
#include <signal.h>

#include <cmath>

#include "base/error.h"
#include "base/units.h"
#include "job/timeline_file.h"
#include "launch/add_servers.h"
#include "launch/blas_kernels.h"
#include "launch/lab.h"
#include "launch/programs.h"
#include "measure/live_view.h"
#include "measure/resume.h"
#include "measure/run_bar.h"
#include "measure/run_tally.h"
#include "report/checkpoint_shelf.h"
#include "report/run_data.h"
#include "report/run_folder.h"
#include "strategy/grid.h"
#include "strategy/registry.h"
#include "strategy/server_plan.h"

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

enum class Of { trainer, program };

// The workers of a plan, watched to their end.
class Watch {
 public:
  Watch(TrainingPlan plan, Of whose)
      : plan_(prepared(std::move(plan))),
        whose_(whose),
        bar_(plan_.label, plan_.grid),
        tally_(plan_.settings) {
    if (!plan_.run_folder.empty() && plan_.launch.speaks()) open_folder();
    if (!plan_.launch.checkpoints.empty()) open_shelf();
    live_.emplace(plan_, whose == Of::program, bar_);
  }

  ProgramRun run() {
    if (plan_.victim) {
      plan_.launch.on_start = [this](int rank, int process) {
        if (rank == *plan_.victim) victim_process_ = process;
      };
    }
    const LaunchResult outcome = launch(
        plan_.launch, [&](int rank, std::string_view line) { take(rank, line); },
        [&](int rank, const std::string& reason) { take_end(rank, reason); });
    live_->finish(outcome.interrupted ? "" : outcome.error);
    if (plan_.timeline && folder_) write_timeline(*folder_, bar_);
    RunSummary summary = sum_up(outcome);
    live_->sum_up(summary);
    if (folder_) keep(summary, outcome);
    return {summary, outcome};
  }

 private:
  static TrainingPlan prepared(TrainingPlan plan) {
    plan.launch.workers = plan.settings.workers / plan.launch.machines;
    plan.launch.settings = write_settings(settings_for_workers(plan));
    plan.launch.run = plan.run_folder.string();
    if (plan.timeline) plan.launch.timeline_folder = plan.run_folder;
    if (!plan.settings.checkpoint.every.empty() && !plan.run_folder.empty()) {
      plan.launch.checkpoints = std::filesystem::absolute(plan.run_folder / kCheckpointFolder);
    }
    plan.launch.resume = plan.resume;
    add_servers(plan.settings, plan.launch);
    return plan;
  }

  void open_folder() {
    if (plan_.resume.empty()) {
      folder_.emplace(plan_.run_folder, plan_.settings);
      return;
    }
    const Manifest manifest = read_manifest(plan_.resume);
    folder_.emplace(plan_.run_folder, plan_.settings, manifest.step());
    bar_.say(
        fmt::format("going on after step {} of {}", manifest.step(), plan_.run_folder.string()));
  }

  void open_shelf() {
    const LaunchPlan& launch = plan_.launch;
    CheckpointShelf::Options shelf;
    if (!plan_.resume.empty()) shelf.resumed = read_manifest(plan_.resume).number;
    shelf.folder = launch.checkpoints;
    shelf.workers = plan_.settings.workers;
    shelf.servers = launch.servers;
    shelf.in_step = cuts_together(plan_.settings);
    shelf.keep = plan_.settings.checkpoint.keep;
    if (launch.mpi) {
      shelf.machine = launch.mpi->rank;
      shelf.machines = launch.mpi->size;
    } else {
      shelf.machine = launch.machine;
      shelf.machines = launch.machines;
    }
    shelf.ranks = launch.ranks_here();
    shelf_.emplace(std::move(shelf));
  }

  void take(int rank, std::string_view line) {
    const json event = json::parse(line, nullptr, false);
    const auto kind = event.is_object() ? event.find("event") : event.end();
    if (kind == event.end() || !kind->is_string()) return;  // the program may be anybody's
    if (*kind == "generation" && shelf_) shelf_->take_generation(rank, event);
    if (*kind == "checkpoint" && shelf_) {
      if (const std::string note = shelf_->take(event); !note.empty()) bar_.say(note);
    }
    if (came_later(rank)) return;
    if (*kind == "settings" && rank == 0) adopt_settings(event);
    live_->take(rank, event);
    tally_.take(rank, event);
    kill_if_due(event);
    if (folder_) record(rank, event);
    if (whose_ == Of::trainer) bar_.take(event);  // nobody knows how far another's program is
  }
  // Beyond those that it began with: pages and tables have no place for them.
  bool came_later(int rank) const { return rank >= plan_.settings.workers + plan_.launch.servers; }
  // A program may say more of how it trains than we were told.
  void adopt_settings(const json& event) {
    const auto text = event.find("settings");
    if (text == event.end() || !text->is_string()) return;
    Settings settings = plan_.settings;
    try {
      read_settings(text->get<std::string>(), "the program's settings", settings);
      settings.workers = plan_.settings.workers;
      check_settings(settings);
      if (folder_) folder_->set(settings);
    } catch (const Error& error) {
      return bar_.say(fmt::format("note: {}", error.what()));
    }
    plan_.settings = settings;
    plan_.launch.survives_losses = survives_losses(settings);  // which the launcher looks at
    plan_.launch.survives_lost_servers = survives_lost_servers(settings);
    tally_.set(settings);
  }
  void kill_if_due(const json& event) {
    const double steps = number_in(event, "steps"), step = number_in(event, "step");
    if (!victim_process_ || steps < 1 || step < steps / 3) return;
    ::kill(*victim_process_, SIGKILL);
    victim_process_.reset();
  }
  void record(int rank, const json& event) {
    const bool was_complete = folder_->missing().empty();
    folder_->record(rank, event);
    if (was_complete && !folder_->missing().empty()) {
      bar_.say(fmt::format("note: {}; the training goes on", folder_->missing()));
    }
  }
  void take_end(int rank, const std::string& reason) {
    if (!came_later(rank)) live_->take_end(rank, reason);
    if (shelf_ && !reason.empty()) shelf_->leave(rank);
    const LaunchPlan& launch = plan_.launch;
    const bool goes_on = launch.survives_losses || launch.survives_lost_servers || launch.elastic;
    if (!reason.empty() && goes_on) bar_.say("note: " + reason);
  }

  // Once there is a result, the model is saved, and whoever is lost afterwards takes nothing away.
  bool came_to_its_end(const LaunchResult& outcome) const {
    return !outcome.interrupted && !outcome.left && (outcome.exit_code == 0 || tally_.has_result());
  }

  RunSummary sum_up(const LaunchResult& outcome) {
    RunSummary summary = tally_.summary();
    summary.lost = outcome.losses;
    if (!came_to_its_end(outcome)) {
      summary.ended = outcome.left ? "left" : outcome.interrupted ? "interrupted" : "failed";
      summary.reason = outcome.left ? "the workers of this machine have left, and the others go on"
                                    : outcome.error;
      summary.accuracy.reset();  // there is no final model
      summary.loss.reset();
    } else if (outcome.exit_code != 0) {
      summary.lost->push_back(outcome.error);
    }
    if (whose_ == Of::program) {
      summary.program = plan_.launch.command[0];
    } else {
      summary.model = plan_.settings.train.model;
      summary.data = name_of(plan_.settings.train.data);
    }
    if (folder_) summary.run = folder_->path().string();
    summary.blas_kernels = blas_kernels().name;
    if (!plan_.launch.lab.empty()) summary.lab = plan_.launch.lab;
    return summary;
  }

  void keep(const RunSummary& summary, const LaunchResult& outcome) {
    if (came_to_its_end(outcome)) {
      // The trainer's summary is where rank 0 is.
      if (whose_ == Of::program || tally_.has_result()) folder_->finish(summary);
      return;
    }
    if (!folder_->used()) return;  // nothing has happened
    if (const auto& stop = tally_.stop()) {
      bar_.say(stop->error.empty() ? fmt::format("note: rank {}'s model is in {}", stop->rank,
                                                 (folder_->path() / "model.safetensors").string())
                                   : fmt::format("note: there is no model: {}", stop->error));
    }
    try {
      folder_->finish(summary);
    } catch (const Error& error) {  // no reason to say less of what went wrong
      bar_.say(fmt::format("note: {}", error.what()));
    }
  }

  TrainingPlan plan_;
  Of whose_;
  RunBar bar_;
  RunTally tally_;
  std::optional<RunFolder> folder_;
  std::optional<CheckpointShelf> shelf_;
  std::optional<LiveView> live_;
  std::optional<int> victim_process_;  // while it is to be killed
};

}  // namespace

ProgramRun run_program(TrainingPlan plan) { return Watch(std::move(plan), Of::program).run(); }

RunSummary run_training(TrainingPlan plan) {
  check_network(plan.settings);
  plan.launch.command = {sibling_program("starling-trainer"), plan.run_folder};
  const bool has_first = plan.launch.has_first();
  const auto [summary, outcome] = Watch(std::move(plan), Of::trainer).run();
  if (outcome.interrupted) {
    fmt::print(stderr, "error: {}\n", describe_end(summary));
    throw Interrupted(outcome);
  }
  if (outcome.left) return summary;
  if (summary.ended && summary.steps) throw TrainingBroke(describe_end(summary));
  if (summary.ended) throw Error(describe_end(summary));
  if (!summary.accuracy && has_first) throw Error("the workers ended without a result");
  return summary;
}

std::string describe_missed(const Target& goal, const RunSummary& summary) {
  const bool by_loss = goal.measure == Target::Measure::loss;
  const double value = by_loss ? summary.loss.value_or(NAN) : summary.accuracy.value_or(0) * 100;
  const std::string has =
      by_loss ? fmt::format("a loss of {:.4f}", value) : fmt::format("{:.2f} %", value);
  const std::string wants =
      by_loss ? fmt::format("{:g}", goal.value) : fmt::format("{:g} %", goal.value * 100);
  return fmt::format(
      "the final model has {}, and --until wants {}{}", has, wants,
      summary.goal_step
          ? fmt::format(", which an evaluation had found after step {}; ask for a little more",
                        *summary.goal_step)
          : "; give it more --epochs");
}

std::string describe_end(const RunSummary& summary) {
  return fmt::format("{}{}", summary.reason.value_or(""),
                     summary.steps ? fmt::format("; it had come to step {}", *summary.steps) : "");
}

}  // namespace starling
