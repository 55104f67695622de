#include "cli/training_run.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>

#include "base/error.h"
#include "base/units.h"
#include "cli/progress_bar.h"
#include "cli/run_folder.h"
#include "net/lab.h"
#include "net/timeline_file.h"
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

namespace {

// Where a run can be watched, if anybody asked for that.
class LiveView {
 public:
  LiveView(const TrainingPlan& plan, const std::filesystem::path& folder, ProgressBar& bar) {
    if (!plan.live) return;
    const Settings& settings = plan.settings;
    const bool is_named = plan.label != settings.strategy;
    run_.emplace(LiveRun::About{.name = folder.filename(),
                                .workers = settings.workers,
                                .servers = plan.launch.servers,
                                .settings = {{"system", is_named ? plan.label : ""},
                                             {"strategy", settings.strategy},
                                             {"workers", settings.workers},
                                             {"servers", plan.launch.servers},
                                             {"model", settings.model},
                                             {"data", settings.data},
                                             {"epochs", settings.epochs},
                                             {"batch", settings.batch},
                                             {"lr", settings.lr}}},
                 [begin = std::chrono::steady_clock::now()] {
                   const auto now = std::chrono::steady_clock::now();
                   return std::chrono::duration<double>(now - begin).count();
                 });
    server_.emplace(*plan.live, token_for(*plan.live), *run_);
    bar.say("live page: " + server_->url());
  }

  void take(int rank, const json& event) {
    if (run_) run_->take(rank, event);
  }
  void take_end(int rank, const std::string& reason) {
    if (run_) run_->take_end(rank, reason);
  }
  void finish(const std::string& error) {
    if (run_) run_->finish(error);
  }

 private:
  static std::string token_for(const LiveAddress& address) {
    if (address.is_loopback()) return "";
    const char* chosen = std::getenv("STARLING_LIVE_TOKEN");
    if (chosen == nullptr) return make_secret();
    if (std::string_view(chosen).size() < 16) {
      throw Error("STARLING_LIVE_TOKEN has fewer than 16 characters",
                  "make one with `openssl rand -hex 16`, or leave it out to get one");
    }
    return chosen;
  }

  std::optional<LiveRun> run_;
  std::optional<LiveServer> server_;  // the first to go
};

// The bar of a run, or of the grid that it is part of.
class RunBar {
 public:
  explicit RunBar(const TrainingPlan& plan)
      : grid_(plan.grid),
        label_(plan.label),
        bar_(plan.grid != nullptr ? plan.grid->name() : plan.label) {}

  void take(const std::string& kind, const json& event) {
    if (kind == "evaluation") {
      accuracy_ = number_in(event, "accuracy");
      bar_.say(fmt::format(
          "{}: epoch {:.2f}  accuracy {:.2f} %  loss {:.4f}  {}", label_, number_in(event, "epoch"),
          accuracy_ * 100, number_in(event, "test_loss", NAN),
          format_duration(
              std::chrono::milliseconds(static_cast<long>(number_in(event, "time") * 1000)))));
    }
    if (kind == "progress" || kind == "evaluation") {
      const double share = number_in(event, "step") / std::max(1.0, number_in(event, "steps"));
      if (grid_ != nullptr) {
        bar_.show(grid_->share(share), grid_->describe(share) + "  " + describe(event, accuracy_));
      } else {
        bar_.show(share, describe(event, accuracy_));
      }
    }
  }
  ProgressBar& bar() { return bar_; }

 private:
  const GridProgress* grid_;
  std::string label_;
  ProgressBar bar_;
  double accuracy_ = -1;
};

// On a host that the kernel slows down, the worker need not do so itself.
Settings settings_for_workers(TrainingPlan& plan) {
  Settings settings = plan.settings;
  const auto slow = slow_worker(settings);
  if (slow && can_slow_hosts(plan.launch.lab)) {
    plan.launch.slow_hosts[slow->rank] = slow->factor;
    settings.slow.clear();
  }
  return settings;
}

}  // namespace

json run_training(TrainingPlan plan) {
  RunFolder folder(plan.run_folder, plan.settings);
  plan.launch.command = {sibling_program("starling-trainer"), folder.path()};
  plan.launch.workers = plan.settings.workers / plan.launch.machines;
  plan.launch.settings = write_settings(settings_for_workers(plan));
  if (plan.timeline) plan.launch.timeline_folder = folder.path();
  add_servers(plan.settings, plan.launch);

  RunBar bar(plan);
  LiveView live(plan, folder.path(), bar.bar());
  json result;
  std::map<int, json> served;  // by rank: what servers have sent and received
  const auto take_event = [&](int rank, std::string_view line) {
    const json event = json::parse(line, nullptr, false);
    if (!event.is_object()) return;
    live.take(rank, event);
    const std::string kind = event.value("event", "");
    if (kind == "result") result = event;
    if (kind == "served") served[rank] = event;
    folder.record(rank, event);
    bar.take(kind, event);
  };
  const auto take_end = [&](int rank, const std::string& reason) {
    live.take_end(rank, reason);
    if (!reason.empty() && plan.launch.survives_losses) bar.bar().say("note: " + reason);
  };
  const LaunchResult outcome = launch(plan.launch, take_event, take_end);
  live.finish(outcome.interrupted ? "" : outcome.error);
  if (plan.timeline) {
    const std::uint64_t left_out = join_timeline(folder.path());
    bar.bar().say(fmt::format(
        "timeline: {}, for ui.perfetto.dev{}", (folder.path() / "timeline.json").string(),
        left_out == 0 ? ""
                      : fmt::format("; {} spans at the end had no place in it",
                                    format_count(static_cast<double>(left_out)))));
  }
  if (outcome.interrupted) {
    bar.bar().say("error: " + outcome.error);
    throw CLI::RuntimeError(outcome.exit_code);
  }
  if (outcome.exit_code != 0) throw Error(outcome.error);
  if (result.is_null()) {
    if (plan.launch.machine > 0) return {{"run", folder.path().string()}};  // rank 0 is elsewhere
    throw Error("the workers ended without a result");
  }
  result.erase("event");
  // In each list of bytes, servers stand behind the workers.
  for (const auto& [rank, counts] : served) {
    for (const auto& [name, bytes] : counts.items()) {
      if (result.contains(name) && result[name].is_array()) result[name].push_back(bytes);
    }
  }
  result["lost"] = outcome.losses;
  result["run"] = folder.path().string();
  if (!plan.launch.lab.empty()) result["lab"] = plan.launch.lab;
  if (is_mix(plan.settings)) {
    result["schedule"] = plan.settings.schedule;
    result["graph"] = graph_settings(plan.settings).name;
    if (const auto gap = graph_gap(plan.settings)) result["spectral_gap"] = *gap;
  }
  folder.finish(result);
  return result;
}

}  // namespace starling
