// Settings on the command line: a flag for every setting, --system for a named system, --settings
// for a file.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>

#include "strategy/settings.h"

namespace starling {

class SettingsFlags {
 public:
  enum class Which { all, strategy_only, training_only };

  void add_to(CLI::App& command, Which which);

  // Defaults, then the system, then the file, then the flags, each over the one before; checked.
  Settings settings() const;
  // The same without checking the number of workers, for what sets it itself.
  Settings unchecked() const;

 private:
  std::string system_;
  std::string file_;
  std::map<std::string, std::string> given_;  // by setting name; only flags that were used
};

}  // namespace starling
