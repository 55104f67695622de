// Flags for what a training leaves behind and where it can be watched.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "measure/training_run.h"

namespace starling {

class RunFlags {
 public:
  // Whether there is a run folder without being asked for.
  enum class Folder { always, if_asked };

  void add_to(CLI::App& command, Folder folder);
  // The plan has its label and its number of workers already. Throws Error on what cannot be.
  void complete(TrainingPlan& plan) const;
  // The folder that was asked for, or nothing.
  std::string path() const { return path_.value_or(""); }

 private:
  Folder folder_ = Folder::always;
  std::optional<std::string> path_;
  std::optional<std::string> live_;
  bool timeline_ = false;
};

}  // namespace starling
