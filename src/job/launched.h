// How a program of one's own takes part in the job that a launcher has started it for.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "job/session.h"
#include "strategy/settings.h"

namespace starling {

// The job, whose launcher from here on hears of every exception that ends this process.
Job launched_job();
// What the launcher has set for its workers.
Settings launched_settings(const Job& job);
// The same with what the program itself has to say: the name of a system or of its file, or none, and
// a TOML text. Where the launcher was told something else than a setting's default, the program must
// not contradict: throws Error, which names the setting.
Settings program_settings(const Job& job, const std::string& system, const std::string& toml);

// Tells the launcher what it did not know: the run folder, the live page and what happens when a worker
// is lost go by it.
void report_settings(const Job& job, const std::string& system, const Settings& settings);

// Compares with rank 0 what all workers of a session must have alike beyond the terms they joined on,
// "name = value", a line each. Throws Error on whoever differs.
void check_alike(Session& session, const Settings& settings, const std::string& terms);

// How a job's workers, or servers, come and go; nothing where they do not.
std::optional<Session::Elastic> elastic_session(const Job& job, const Settings& settings,
                                                Member::Role role = Member::Role::worker);

// Tells the launcher that this process has joined and, where workers come and go, at which door it can
// be asked to let others in; and that it has gone on to another generation than the first, and who it is
// in that.
void report_joined(Session& session);
void report_generation(Session& session);

// Joins a job whose ranks all must have these settings.
std::shared_ptr<Session> join_alike(Job job, const Settings& settings);
// Joins the workers that the launcher has started, and tells it if that fails.
std::shared_ptr<Session> join_launched();

}  // namespace starling
