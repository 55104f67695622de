// starling status: what the workers of a running job do, and who waits for whom.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/units.h"
#include "cli/command.h"
#include "launch/job_folder.h"
#include "launch/watchdog.h"
#include "report/table.h"

namespace starling {

namespace {

using nlohmann::json;

struct StatusCommand {
  std::string run;
  bool print_json = false;
  bool check_ready = false;
  std::string alive_within;
};

struct SeenJob {
  int launcher;
  json description;
  std::vector<RankStatus> ranks;
  std::vector<std::string> doors;  // where it lets others in, if it is elastic
};

bool is_named(const RunningJob& job, const json& description, const std::string& name) {
  if (name.empty() || name == std::to_string(job.launcher)) return true;
  const std::filesystem::path run = description.value("run", "");
  std::error_code ignored;
  return !run.empty() &&
         (run == name || run.filename() == name || std::filesystem::equivalent(run, name, ignored));
}

std::vector<SeenJob> find_jobs(const std::string& name) {
  std::vector<SeenJob> found;
  const std::vector<RunningJob> running = running_jobs();
  for (const RunningJob& each : running) {
    const json description = json::parse(each.description, nullptr, false);
    if (!description.is_object() || !is_named(each, description, name)) continue;
    SeenJob job{each.launcher, description, read_boards(each.folder), {}};
    for (const JobDoor& door : read_doors(each.folder)) job.doors.push_back(door.door);
    found.push_back(std::move(job));
  }
  if (found.empty() && !name.empty() && !running.empty()) {
    throw Error(fmt::format("no running job is called '{}'", name),
                "`starling status` alone shows all of them");
  }
  return found;
}

std::string pace_of(const BoardEntry& entry) {
  if (entry.seconds_a_step <= 0) return "";
  return fmt::format("{:.3g} steps/s", 1 / entry.seconds_a_step);
}

std::string title_of(const SeenJob& job) {
  const std::string run = job.description.value("run", "");
  const std::vector<std::string> command =
      job.description.value("command", std::vector<std::string>{});
  const auto age = std::chrono::seconds(
      std::max<std::int64_t>(0, std::time(nullptr) - job.description.value("started", 0L)));
  const int machines = job.description.value("machines", 1);
  return fmt::format("{}, launcher {}, for {}{}",
                     !run.empty() ? run : fmt::format("{}", fmt::join(command, " ")), job.launcher,
                     format_duration(age),
                     machines == 1 ? ""
                                   : fmt::format("; those on machine {} of {}",
                                                 job.description.value("machine", 0), machines));
}

void print_job(const SeenJob& job, BoardTime now) {
  Table table({"rank", "process", "step", "pace", "what it does"});
  for (const RankStatus& each : job.ranks) {
    const bool joined = each.process != RankStatus::Process::none;
    table.add({std::to_string(each.rank), joined ? std::to_string(each.entry.process) : "",
               joined && each.entry.counts_steps ? std::to_string(each.entry.steps + 1) : "",
               pace_of(each.entry), describe_doing(each, now)});
  }
  fmt::print("{}\n{}", title_of(job), table.text());
  if (!job.doors.empty()) fmt::print("others join at any of {}\n", fmt::join(job.doors, ", "));
  const std::string culprits = describe_culprits(job.ranks);
  if (!culprits.empty()) fmt::print("{}\n", culprits);
}

json as_json(const SeenJob& job, BoardTime now) {
  json result = job.description;
  result["launcher"] = job.launcher;
  result["ranks"] = json::array();
  for (const RankStatus& each : job.ranks) {
    const bool joined = each.process != RankStatus::Process::none;
    const auto seconds = [&](BoardTime time) {
      return std::chrono::duration<double>(now - time).count();
    };
    json rank = {{"rank", each.rank}, {"says", describe_doing(each, now)}, {"joined", joined}};
    if (joined) {
      rank.update(
          {{"process", each.entry.process},
           {"state", name_of(each.entry.state)},
           {"stopped", each.process == RankStatus::Process::stopped},
           {"ended", each.process == RankStatus::Process::ended},
           {"steps", each.entry.steps},
           {"steps_per_second", each.entry.seconds_a_step > 0 ? 1 / each.entry.seconds_a_step : 0},
           {"wire_bytes", each.entry.moved_bytes},
           {"for_seconds", seconds(each.entry.since)},
           {"heard_of_seconds_ago", seconds(each.entry.written)},
           {"waits_for", awaited_by(each)}});
    }
    result["ranks"].push_back(std::move(rank));
  }
  result["doors"] = job.doors;
  result["culprits"] = describe_culprits(job.ranks);
  return result;
}

// For the probes of a cluster's engine, which look at the exit code.
void check(const StatusCommand& command, const std::vector<SeenJob>& jobs, BoardTime now) {
  if (jobs.empty()) throw Error("no job of yours runs on this machine");
  for (const SeenJob& job : jobs) {
    if (command.check_ready && job.doors.empty()) {
      throw Error("no worker of it lets others in: not all have joined yet, or it is not elastic");
    }
    if (command.alive_within.empty()) continue;
    const std::chrono::nanoseconds within = parse_duration(command.alive_within);
    for (const RankStatus& each : job.ranks) {
      const bool silent = now - each.entry.written > within;
      if (each.process == RankStatus::Process::runs
              ? silent
              : each.process == RankStatus::Process::stopped) {
        throw Error(fmt::format("no sign of life from rank {} for {}: it {}", each.rank,
                                command.alive_within, describe_doing(each, now)));
      }
    }
  }
}

void show(const StatusCommand& command) {
  const std::vector<SeenJob> jobs = find_jobs(command.run);
  const BoardTime now = std::chrono::steady_clock::now();
  if (command.check_ready || !command.alive_within.empty()) return check(command, jobs, now);
  if (command.print_json) {
    json all = json::array();
    for (const SeenJob& job : jobs) all.push_back(as_json(job, now));
    fmt::print("{}\n", json{{"jobs", all}}.dump());
    return;
  }
  if (jobs.empty()) {
    fmt::print(
        "no job of yours runs on this machine; start one with `starling train` or "
        "`starling launch`\n");
  }
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (i > 0) fmt::print("\n");
    print_job(jobs[i], now);
  }
}

}  // namespace

void add_status_command(CLI::App& app) {
  auto command = std::make_shared<StatusCommand>();
  CLI::App* status = app.add_subcommand(
      "status", "Show what the workers of a running job do, and who waits for whom");
  status->footer(
      "Shows the jobs that you have running on this machine. It asks none of them: it works while\n"
      "a worker computes, hangs or is stopped.\n\n"
      "Example:\n"
      "  starling status\n"
      "  starling status runs/mine --json\n"
      "  starling status --alive 5min");
  status->add_option("run", command->run,
                     "only the job with this run folder, or of this launcher's process");
  status->add_flag("--json", command->print_json, "print one JSON object");
  status->add_option("--alive", command->alive_within,
                     "print nothing, and fail unless a job runs here and each worker has given a "
                     "sign of life within that long, which none does while it computes a step");
  status->add_flag(
      "--ready", command->check_ready,
      "print nothing, and fail unless all have joined an elastic job and let others in");
  status->callback([command] { show(*command); });
}

}  // namespace starling
