// The named systems: short files of settings in systems/, built into the program, each with the
// five choices that make it what it is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "strategy/settings.h"

namespace starling {

struct System {
  std::string name;
  std::string title;
  std::string summary;
  std::string source;      // the paper or project it comes from
  std::string difference;  // how ours differs from it
  std::string parallelism, optimization, schedule, exchange, topology;
  std::string toml;
};

// All of them, by name.
std::vector<System> named_systems();
// The one of that name; throws Error naming those there are.
System find_system(std::string_view name);
// All of them as a page of Markdown, which docs/systems.md is.
std::string systems_page();
// The description part of a system file; throws Error on what is missing.
System parse_system(std::string_view toml, const std::string& source);

}  // namespace starling
