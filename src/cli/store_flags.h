// The flag for where a job's roster is kept outside of it, and what is to be done there before it starts.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <string>

#include "launch/launcher.h"
#include "launch/stored_job.h"
#include "strategy/settings.h"

namespace starling {

class StoreFlags {
 public:
  void add_to(CLI::App& command);
  bool given() const { return !url_.empty(); }
  // Throws Error on what is no store.
  RosterStore store(const LaunchPlan& plan) const;

 private:
  std::string url_;
};

// A job that is about to start, or to start again.
class StoredStart {
 public:
  // Looks in the store, if there is one. Throws Error if the job runs already.
  StoredStart(const StoreFlags& flags, const LaunchPlan& plan);

  // The folder with a checkpoint that it can go on from, or nothing; says so. `run` is the folder that was
  // asked for, if any: throws Error if the job has another.
  std::string run_to_resume(const std::string& run) const;
  // Enters it in the store, from the one machine that does so for all.
  void enter(const Settings& settings, const std::filesystem::path& run, LaunchPlan& plan);

 private:
  bool shares_folder_name_;
  std::optional<RosterStore> store_;
  RosterStore::Found found_;
};

// The job as somebody outside of it must know it to ask its members.
Job job_for_asking(const LaunchPlan& plan);

}  // namespace starling
