// starling systems: the named systems and their five choices.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/command.h"
#include "report/table.h"
#include "strategy/systems.h"

namespace starling {

namespace {

struct SystemsCommand {
  std::string name;
  bool print_json = false;
  bool print_markdown = false;
};

nlohmann::json as_json(const System& system) {
  return {{"name", system.name},
          {"title", system.title},
          {"summary", system.summary},
          {"source", system.source},
          {"difference", system.difference},
          {"parallelism", system.parallelism},
          {"optimization", system.optimization},
          {"schedule", system.schedule},
          {"exchange", system.exchange},
          {"topology", system.topology}};
}

void list_all(bool print_json) {
  if (print_json) {
    nlohmann::json list = nlohmann::json::array();
    for (const System& system : named_systems()) list.push_back(as_json(system));
    fmt::print("{}\n", list.dump());
    return;
  }
  Table table({"system", "parallelism", "optimization", "schedule", "exchange", "topology"});
  for (const System& system : named_systems()) {
    table.add({system.name, system.parallelism, system.optimization, system.schedule,
               system.exchange, system.topology});
  }
  fmt::print("{}\nstarling systems NAME explains one, starling train --system NAME runs it.\n",
             table.text());
}

void show_one(const std::string& name, bool print_json) {
  const System system = find_system(name);
  if (print_json) {
    fmt::print("{}\n", as_json(system).dump());
    return;
  }
  fmt::print("{} ({})\n\n{}\n\n", system.title, system.name, system.summary);
  fmt::print(
      "  parallelism   {}\n  optimization  {}\n  schedule      {}\n  exchange      {}\n"
      "  topology      {}\n\n",
      system.parallelism, system.optimization, system.schedule, system.exchange, system.topology);
  fmt::print("Source: {}\nHow ours differs: {}\n\n", system.source, system.difference);
  fmt::print("Run it: starling train --system {}\n", system.name);
}

}  // namespace

void add_systems_command(CLI::App& app) {
  auto command = std::make_shared<SystemsCommand>();
  CLI::App* systems = app.add_subcommand("systems", "List the named systems, or explain one");
  systems->footer(
      "Example:\n  starling systems\n  starling systems horovod\n  starling systems --markdown > "
      "docs/systems.md");
  systems->add_option("name", command->name, "the system to explain");
  systems->add_flag("--json", command->print_json, "print JSON");
  systems->add_flag("--markdown", command->print_markdown, "print all as the page docs/systems.md");
  systems->callback([command] {
    if (command->print_markdown) {
      if (!command->name.empty() || command->print_json) {
        throw Error("--markdown prints the page of all systems", "leave out the name and --json");
      }
      fmt::print("{}", systems_page());
      return;
    }
    command->name.empty() ? list_all(command->print_json)
                          : show_one(command->name, command->print_json);
  });
}

}  // namespace starling
