#include "job/launched.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "exchange/collectives.h"
#include "job/terms.h"
#include "job/worker_events.h"
#include "strategy/grid.h"
#include "strategy/registry.h"
#include "strategy/server_plan.h"
#include "strategy/strategy.h"
#include "strategy/systems.h"

namespace starling {

Job launched_job() {
  Job job = job_from_environment();
  report_uncaught(job);
  // The launcher shows lines when they are complete; into a pipe they would come by the page.
  if (job.events_fd >= 0) std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  return job;
}

namespace {

Settings unchecked_settings(const Job& job) {
  Settings settings;
  if (!job.settings.empty()) read_settings(job.settings, "the launcher's settings", settings);
  // Who starts a guest knows its size of those that it starts itself; the settings are of all.
  if (job.guest_of.empty()) settings.workers = job.size - server_processes(settings);
  return settings;
}

std::map<std::string, std::string> as_texts(const Settings& settings) {
  std::map<std::string, std::string> texts;
  visit_settings(settings, [&](const Setting& setting, const auto& value, const auto&...) {
    texts[setting.name] = fmt::format("{}", value);
  });
  return texts;
}

}  // namespace

Settings launched_settings(const Job& job) {
  Settings settings = unchecked_settings(job);
  check_settings(settings);
  return settings;
}

namespace {

std::string text_of(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) throw Error("cannot read the settings file " + file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// Who is alone does what it always did, whatever the program says of others.
Settings alone(const Settings& settings) {
  Settings single;
  single.workers = 1;
  single.strategy = StrategyKind::single;
  single.backward_passes = settings.backward_passes;
  single.optimizer.clip = settings.optimizer.clip;
  single.seed = settings.seed;
  return single;
}

}  // namespace

Settings program_settings(const Job& job, const std::string& system, const std::string& toml) {
  const Settings launched = unchecked_settings(job);
  Settings settings = launched;
  if (system.ends_with(".toml")) {
    read_settings(text_of(system), system, settings);
  } else if (!system.empty()) {
    read_settings(find_system(system).toml, "system " + system, settings);
  }
  settings.workers = launched.workers;  // a system may have a number that suits it
  read_settings(toml, "this program", settings);
  const auto usual = as_texts(Settings()), theirs = as_texts(launched), ours = as_texts(settings);
  for (const auto& [name, value] : ours) {
    const std::string& told = theirs.at(name);
    if (value == told || (name != "workers" && told == usual.at(name))) continue;
    throw Error(fmt::format("this program sets {} = {}, and its launcher {}", name, value, told),
                "say it in one place");
  }
  if (job.size == 1 && !settings.elastic.on) return alone(settings);
  check_settings(settings);
  if (server_processes(settings) != server_processes(launched)) {
    throw Error(fmt::format("{} needs {} servers, which only the launcher can start",
                            system.empty() ? "this program" : "system " + system,
                            server_processes(settings)),
                system.empty()
                    ? "say so to it: `starling launch --strategy server ...`"
                    : fmt::format("say so to it: `starling launch --system {} ...`", system));
  }
  return settings;
}

void report_settings(const Job& job, const std::string& system, const Settings& settings) {
  report_event(job, {{"event", "settings"},
                     {"system", system},
                     {"strategy", name_of(settings.strategy)},
                     {"settings", write_settings(settings)}});
}

namespace {

Task<> tell_text(Group group, std::string& text) {
  std::uint64_t bytes = text.size();
  co_await broadcast(group, kControlChannel, object_bytes(bytes), 0);
  if (bytes > kMostTermsBytes) throw Error("the settings are too long to be compared");
  text.resize(bytes);
  co_await broadcast(group, kControlChannel, std::as_writable_bytes(std::span(text)), 0);
}

}  // namespace

void check_alike(Session& session, const Settings& settings, const std::string& terms) {
  const Group workers = slice_workers(settings, session.comm(), GroupNumber::control);
  std::string first = terms;
  session.run("comparing settings", tell_text(workers, first));
  if (first == terms) return;
  const Difference found = difference(first, terms);
  throw Error(fmt::format("rank {} has {}, and this worker {}", workers.in_comm(0), found.theirs,
                          found.ours),
              "all workers need the same");
}

namespace {

std::string door_of(const Member& member) {
  return fmt::format("{}:{}", to_string(member.door), member.door.port);
}

// Of all who have met, one a machine would be enough.
void report_roster(Session& session) {
  const Generations& generations = *session.generations();
  std::vector<std::string> doors;
  for (const Member& member : generations.roster().members) doors.push_back(door_of(member));
  report_event(
      session.job(),
      {{"event", "roster"}, {"generation", generations.roster().generation}, {"doors", doors}});
}

}  // namespace

void report_joined(Session& session) {
  nlohmann::json event = {{"event", "joined"}};
  const Generations* generations = session.generations();
  if (generations != nullptr) {
    event["door"] =
        door_of(generations->roster().members[static_cast<std::size_t>(generations->rank())]);
  }
  report_event(session.job(), event);
  if (generations == nullptr) return;
  if (generations->roster().generation > 1) return report_generation(session);
  report_roster(session);
}

void report_generation(Session& session) {
  const Generations& generations = *session.generations();
  report_event(session.job(), {{"event", "generation"},
                               {"generation", generations.roster().generation},
                               {"rank", generations.rank()},
                               {"workers", generations.roster().workers()},
                               {"servers", generations.roster().servers()}});
  report_roster(session);
}

std::shared_ptr<Session> join_alike(Job job, const Settings& settings) {
  job.terms = agreed_settings(settings);
  const auto elastic = elastic_session(job, settings);
  return std::make_shared<Session>(std::move(job), elastic);
}

std::optional<Session::Elastic> elastic_session(const Job& job, const Settings& settings,
                                                Member::Role role) {
  if (!settings.elastic.on || job.rendezvous.empty()) return {};
  Session::Elastic elastic{.rules = {}, .role = role};
  elastic.rules.least_workers = settings.elastic.min_workers;
  if (settings.elastic.max_workers > 0) elastic.rules.most_workers = settings.elastic.max_workers;
  elastic.rules.least_servers = std::min(1, server_processes(settings));
  elastic.rules.in_step = out_of_data(settings) != OutOfData::leaves;
  elastic.rules.patience = job.timeout / 3;
  elastic.rules.wait = job.timeout * 10;
  return elastic;
}

std::shared_ptr<Session> join_launched() {
  const Job job = launched_job();
  try {
    return join_alike(job, launched_settings(job));
  } catch (const std::exception& error) {
    if (job.events_fd >= 0) report_error(job, error);
    throw;
  }
}

}  // namespace starling
