// starling join: adds workers to an elastic job that runs. starling leave: takes one out of it.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/command.h"
#include "cli/launch_flags.h"
#include "cli/store_flags.h"
#include "job/ask_member.h"
#include "launch/job_folder.h"
#include "launch/programs.h"
#include "strategy/settings.h"

namespace starling {

namespace {

struct JoinCommand {
  std::string door;
  int workers = 1;
  std::string data_folder;
  std::vector<std::string> program;  // that the others run, if it is not our trainer
  LaunchFlags where;
  StoreFlags store;
};

// Where a job can be asked, and how it knows who may.
struct Contact {
  std::string door;
  Job job;
};

// The elastic job of this user on this machine, if there is one and only one.
Contact own_job() {
  std::vector<Contact> found;
  for (const RunningJob& running : running_jobs()) {
    const auto doors = read_doors(running.folder);
    if (doors.empty()) continue;
    Contact contact{doors.front().door, {}};
    contact.job.secret = doors.front().secret;
    contact.job.encryption.links = named<Encryption::Links>(doors.front().tls);
    found.push_back(contact);
  }
  if (found.size() == 1) return found.front();
  throw Error(found.empty() ? "no elastic job of yours runs on this machine"
                            : "several elastic jobs of yours run on this machine",
              "name a worker's door, e.g. starling join 10.0.0.1:40123 --secret-file secret.txt");
}

Contact contact_of(const JoinCommand& command, const LaunchPlan& plan) {
  if (command.door.empty()) return own_job();
  if (plan.secret.empty()) {
    throw Error("who joins must know the job's secret", "give --secret-file");
  }
  return {command.door, job_for_asking(plan)};
}

// A member of the job, and what it says of it.
std::pair<Contact, Message> ask_to_describe(const JoinCommand& command, LaunchPlan& plan) {
  if (!command.store.given()) {
    Contact contact = contact_of(command, plan);
    Message answer = ask_member(contact.job, contact.door, Message::Kind::describe);
    return {std::move(contact), std::move(answer)};
  }
  if (!command.door.empty()) {
    throw Error("the store knows the members' doors", "leave out the door, or --store");
  }
  RosterStore store = command.store.store(plan);
  Contact contact{"", job_for_asking(plan)};
  FoundMember found = find_member(store, contact.job);
  contact.door = found.door;
  plan.store = store.url();
  return {std::move(contact), std::move(found.answer)};
}

std::string doors_of(const Roster& roster) {
  std::vector<std::string> doors;
  for (const Member& member : roster.members) {
    doors.push_back(fmt::format("{}:{}", to_string(member.door), member.door.port));
  }
  return fmt::format("{}", fmt::join(doors, ","));
}

void join_job(const JoinCommand& command) {
  LaunchPlan plan = command.where.plan();
  if (!plan.hosts.empty()) {
    throw Error("--hosts is for `starling train` and `starling launch`",
                "run `starling join` on each machine");
  }
  const auto [contact, answer] = ask_to_describe(command, plan);
  Settings settings;
  read_settings(answer.text, "the settings of the job", settings);
  if (!command.data_folder.empty()) settings.train.data_folder = command.data_folder;
  plan.workers = command.workers;
  plan.elastic = true;
  plan.guest_of = doors_of(answer.roster);
  plan.secret = contact.job.secret;
  plan.tls = name_of(contact.job.encryption.links);
  plan.settings = write_settings(settings);
  plan.command = command.program;
  if (plan.command.empty()) plan.command = {sibling_program("starling-trainer"), "."};
  fmt::print(stderr, "{} join{} {} at {}\n",
             command.workers == 1 ? "1 worker" : fmt::format("{} workers", command.workers),
             command.workers == 1 ? "s" : "", answer.roster.members.size(), contact.door);
  const auto on_event = [](int rank, std::string_view line) {
    const auto event = nlohmann::json::parse(line, nullptr, false);
    if (!event.is_object() || !event.contains("event")) return;
    if (event["event"] == "joined") fmt::print(stderr, "worker {} has joined\n", rank);
    if (event["event"] == "left") fmt::print(stderr, "worker {} has left\n", rank);
  };
  const LaunchResult result = launch(plan, on_event);
  if (!result.error.empty()) fmt::print(stderr, "error: {}\n", result.error);
  if (result.exit_code != 0) throw CLI::RuntimeError(result.exit_code);
}

void leave_job(const JoinCommand& command) {
  const Contact contact = contact_of(command, command.where.plan());
  ask_member(contact.job, contact.door, Message::Kind::leave);
  fmt::print("the worker at {} leaves after a few steps; the others go on\n", contact.door);
}

}  // namespace

void add_join_command(CLI::App& app, std::vector<std::string> program) {
  auto joins = std::make_shared<JoinCommand>();
  joins->program = std::move(program);
  CLI::App* join = app.add_subcommand("join", "Add workers to an elastic training that runs");
  join->footer(
      "Example:\n"
      "  starling train --workers 4 --elastic &\n"
      "  starling join --workers 2                                   the same user and machine\n"
      "  starling join 10.0.0.1:40123 --secret-file secret.txt       from another one\n"
      "  starling join --store etcd://10.0.0.1:2379/my-job --secret-file secret.txt\n"
      "  starling join -- ./my_program its arguments                 what `starling launch` runs");
  join->add_option("door", joins->door,
                   "host:port of any worker, as `starling status` shows it where the job runs");
  join->add_option("-n,--workers", joins->workers, "how many")->check(CLI::Range(1, 1024));
  join->add_option("--data-folder", joins->data_folder, "where the data is on this machine");
  joins->where.add_to(*join);
  joins->store.add_to(*join);
  join->callback([joins] { join_job(*joins); });

  auto leaves = std::make_shared<JoinCommand>();
  CLI::App* leave = app.add_subcommand("leave", "Take a worker out of an elastic training");
  leave->footer(
      "Example:\n"
      "  starling leave 10.0.0.1:40123 --secret-file secret.txt\n"
      "A worker that gets SIGTERM leaves as well.");
  leave->add_option("door", leaves->door, "host:port of the worker");
  leaves->where.add_to(*leave);
  leave->callback([leaves] { leave_job(*leaves); });
}

}  // namespace starling
