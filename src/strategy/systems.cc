#include "strategy/systems.h"

#include <fmt/format.h>

#include <toml++/toml.h>
#include <algorithm>
#include <array>
#include <sstream>

#include "base/error.h"

namespace starling {

namespace {

struct SystemFile {
  std::string_view name;
  std::string_view text;
};
// Written by CMake from systems/*.toml.
constexpr SystemFile kSystemFiles[] = {
#include "system_files.inc"
};

}  // namespace

System parse_system(std::string_view toml, const std::string& source) {
  toml::table table;
  try {
    table = toml::parse(toml, source);
  } catch (const toml::parse_error& error) {
    throw Error(fmt::format("{}:{}: {}", source, error.source().begin.line, error.description()));
  }
  const auto text = [&](const char* section, const char* key) {
    const auto value = table[section][key].value<std::string>();
    if (!value) throw Error(fmt::format("{}: [{}] has no {}", source, section, key));
    return *value;
  };
  System system;
  system.title = text("system", "title");
  system.summary = text("system", "summary");
  system.source = text("system", "source");
  system.difference = text("system", "difference");
  system.parallelism = text("choices", "parallelism");
  system.optimization = text("choices", "optimization");
  system.schedule = text("choices", "schedule");
  system.exchange = text("choices", "exchange");
  system.topology = text("choices", "topology");
  system.toml = toml;
  return system;
}

std::vector<System> named_systems() {
  std::vector<System> systems;
  for (const SystemFile& file : kSystemFiles) {
    systems.push_back(parse_system(file.text, fmt::format("systems/{}.toml", file.name)));
    systems.back().name = file.name;
  }
  std::ranges::sort(systems, {}, &System::name);
  return systems;
}

namespace {

// `strategy = "mix"`, `graph = "star"` ...
std::string settings_of(const System& system) {
  constexpr std::string_view kSection = "[settings]\n";
  std::istringstream lines(system.toml.substr(system.toml.find(kSection) + kSection.size()));
  std::string list;
  for (std::string line; std::getline(lines, line);) {
    list += fmt::format("{}`{}`", list.empty() ? "" : ", ", line);
  }
  return list;
}

}  // namespace

std::string systems_page() {
  std::string page =
      "# The named systems\n\n"
      "Each is a short file of settings in `systems/`; `starling systems NAME` shows one, "
      "`starling train --system NAME` runs it. `starling systems --markdown` prints this page; a "
      "test holds the page to the files, and each file's choices and numbers to its settings "
      "(`tests/strategy/systems_test.cc`).\n\n"
      "| system | parallelism | optimization | schedule | exchange | topology |\n"
      "|---|---|---|---|---|---|\n";
  const std::vector<System> systems = named_systems();
  for (const System& each : systems) {
    page +=
        fmt::format("| [{0}](#{0}) | {1} | {2} | {3} | {4} | {5} |\n", each.name, each.parallelism,
                    each.optimization, each.schedule, each.exchange, each.topology);
  }
  for (const System& each : systems) {
    page += fmt::format(
        "\n## {}\n**{}.** {}\n\n- *Paper:* {}\n- *Settings:* {}\n- *How ours differs:* {}\n",
        each.name, each.title, each.summary, each.source, settings_of(each), each.difference);
  }
  return page;
}

System find_system(std::string_view name) {
  std::string known;
  for (const System& system : named_systems()) {
    if (system.name == name) return system;
    known += (known.empty() ? "" : ", ") + system.name;
  }
  throw Error(fmt::format("there is no system '{}'", name), "there are " + known);
}

}  // namespace starling
