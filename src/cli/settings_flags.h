// Settings on the command line: a flag for every setting, --system for a named system, --settings
// for a file.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <optional>
#include <string>

#include "strategy/systems.h"

namespace starling {

class SettingsFlags {
 public:
  // All; those that programs of the user's own can use, without --workers; those that all systems
  // have in common; what a network, its batch and a pipeline of it are made of.
  enum class Which { all, own_loop, training_only, pipeline };

  // Help shows these defaults.
  void add_to(CLI::App& command, Which which, const Settings& defaults = {});

  // Defaults, then the system, then the file, then the flags, each over the one before; checked.
  Settings settings() const;
  // The same without any check, for what sets the number of workers itself and checks then.
  Settings unchecked(Settings defaults = {}) const;

  // What people call it: the named system, or else the strategy.
  std::string name() const {
    return system_.empty() ? std::string(name_of(unchecked().strategy)) : system_;
  }
  // The number that --workers gave, or 0.
  int workers_given() const;
  // One of the flags that were used, if any was.
  std::optional<std::string> any_flag() const;

 private:
  std::string system_;
  std::string file_;
  std::map<std::string, std::string> given_;  // by setting name; only flags that were used
};

}  // namespace starling
