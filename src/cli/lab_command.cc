// starling lab: builds networks of hosts on this machine, shows them, and takes them down.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/units.h"
#include "cli/command.h"
#include "launch/lab.h"
#include "report/table.h"

namespace starling {

namespace {

using nlohmann::json;

struct LabCommand {
  int hosts = 6;
  std::string rate = "100mbit";
  std::string name;
  std::vector<std::string> slow;
  std::string memory;
  bool print_json = false;
};

std::string free_name() {
  const std::vector<Lab> labs = Lab::all();
  for (int i = 1;; ++i) {
    std::string name = fmt::format("lab{}", i);
    if (std::ranges::find(labs, name, &Lab::name) == labs.end()) return name;
  }
}

void lab_up(const LabCommand& command) {
  LabSpec spec = parse_lab_spec(command.rate);
  spec.hosts = command.hosts;
  for (const std::string& slow : command.slow) {
    if (!spec.limits.slow.insert(parse_slow_host(slow)).second) {
      throw Error(fmt::format("--slow {}: that host is slowed down already", slow),
                  "name each host once");
    }
  }
  if (!command.memory.empty()) spec.limits.memory_bytes = parse_host_memory(command.memory);
  if (is_of_a_job(command.name)) {
    throw Error(fmt::format("--name {} is how a job calls a lab of its own", command.name),
                "choose one that is not run and a number");
  }
  const Lab lab = Lab::up(command.name.empty() ? free_name() : command.name, spec);
  if (command.print_json) {
    fmt::print("{}\n", json{{"lab", lab.name()}, {"hosts", lab.hosts()}}.dump());
    return;
  }
  fmt::print("{} is up: {} hosts, {} to {}, each on a link of {}\n", lab.name(), lab.hosts(),
             lab.address(0), lab.address(lab.hosts() - 1), lab.rate());
  fmt::print("use it:   starling train --lab {} --workers {}\ntake it down: starling lab down {}\n",
             lab.name(), lab.hosts(), lab.name());
}

std::string in_words(const HostLimits& limits) {
  std::string words;
  if (limits.cores > 0) words = fmt::format("{:.3g} cores", limits.cores);
  if (limits.memory_bytes > 0) {
    words += (words.empty() ? "" : ", ") + format_bytes(static_cast<double>(limits.memory_bytes));
  }
  return words.empty() ? "none" : words;
}

void lab_status(const LabCommand& command) {
  Table table({"lab", "host", "address", "rate", "limits", "processes", "sent", "received"});
  json rows = json::array();
  for (const Lab& lab : Lab::all()) {
    const std::string rate = lab.rate();
    for (int host = 0; host < lab.hosts(); ++host) {
      const InterfaceCount traffic = lab.traffic(host);
      const std::size_t processes = lab.processes(host).size();
      const HostLimits limits = lab.limits(host);
      table.add({lab.name(), std::to_string(host), lab.address(host), rate, in_words(limits),
                 std::to_string(processes), format_bytes(static_cast<double>(traffic.sent_bytes)),
                 format_bytes(static_cast<double>(traffic.received_bytes))});
      rows.push_back({{"lab", lab.name()},
                      {"host", host},
                      {"address", lab.address(host)},
                      {"rate", rate},
                      {"processes", processes},
                      {"sent_bytes", traffic.sent_bytes},
                      {"received_bytes", traffic.received_bytes}});
      if (limits.cores > 0) rows.back()["cores"] = limits.cores;
      if (limits.memory_bytes > 0) rows.back()["memory_bytes"] = limits.memory_bytes;
    }
  }
  if (command.print_json) {
    fmt::print("{}\n", rows.dump());
  } else if (rows.empty()) {
    fmt::print("no lab is up; build one with `starling lab up --hosts 6 --rate 100mbit`\n");
  } else {
    fmt::print("{}", table.text());
  }
}

void lab_down(const LabCommand& command) {
  const std::vector<Lab> labs =
      command.name.empty() ? Lab::all() : std::vector<Lab>{Lab::find(command.name)};
  if (labs.empty()) fmt::print("no lab is up\n");
  for (const Lab& lab : labs) {
    lab.down();
    fmt::print("{} is down\n", lab.name());
  }
}

}  // namespace

void add_lab_command(CLI::App& app) {
  auto command = std::make_shared<LabCommand>();
  CLI::App* lab = app.add_subcommand("lab", "Build a network of hosts with slow links, here");
  lab->require_subcommand(1);
  lab->footer(
      "Each host is a network namespace with a link of the given rate to a switch. Needs root.\n"
      "`train`, `launch`, `measure` and `bench` take --lab 6x100mbit for a lab of their own.\n\n"
      "Example:\n"
      "  starling lab up --hosts 6 --rate 100mbit\n"
      "  starling lab status\n"
      "  starling lab down");
  CLI::App* up = lab->add_subcommand("up", "Build one");
  up->add_option("--hosts", command->hosts, "how many hosts")
      ->check(CLI::Range(1, Lab::kMostHosts))
      ->capture_default_str();
  up->add_option("--rate", command->rate, "of each host's link, e.g. 10mbit")
      ->capture_default_str();
  up->add_option("--name", command->name, "its name; by default lab1, lab2 ...");
  up->add_option("--slow", command->slow,
                 "slow a host down, e.g. 3:5 for host 3, which gets a fifth of one core; several "
                 "may be given");
  up->add_option("--memory", command->memory,
                 "how much each host has, e.g. 1g or 512MB; who takes more is killed");
  up->footer(
      "Example:\n  starling lab up --hosts 4 --rate 10mbit\n"
      "  starling lab up --hosts 4 --slow 1:2 --slow 3:5 --memory 1g");
  up->callback([command] { lab_up(*command); });
  CLI::App* status = lab->add_subcommand("status", "Show all hosts of all labs");
  status->callback([command] { lab_status(*command); });
  CLI::App* down = lab->add_subcommand("down", "Take one down, or all, also after a crash");
  down->add_option("name", command->name, "which; by default all");
  down->callback([command] { lab_down(*command); });
  for (CLI::App* each : {up, status}) {
    each->add_flag("--json", command->print_json, "print JSON");
  }
}

}  // namespace starling
