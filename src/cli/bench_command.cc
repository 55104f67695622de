// starling bench: how fast the parts are on this machine, beside their peers in the same run.
#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/contestants.h"
#include "cli/exchange_bench.h"
#include "cli/machine.h"
#include "cli/server_bench.h"
#include "cli/training_bench.h"
#include "exchange/allreduce.h"
#include "launch/programs.h"
#include "report/progress_bar.h"
#include "report/table.h"

namespace starling {

namespace {

using nlohmann::json;

struct BenchCommand {
  std::vector<int> workers = {2, 4, 8};
  std::vector<std::string> sizes = {"4KB", "64KB", "1MB", "4MB", "16MB", "64MB"};
  std::vector<std::string> algorithms = {"all"};
  double seconds = 0.2;
  int rounds = 3;
  std::string lab;
  bool no_peers = false;
  bool print_json = false;
  ExchangeBench worker;  // filled in for the hidden command
};

// Who was measured: Starling's or a peer's algorithm.
struct Entry {
  std::string peer;
  std::string algorithm;
  auto operator<=>(const Entry&) const = default;
};

struct Cell {
  int workers;
  std::size_t bytes;
  Entry who;
  auto operator<=>(const Cell&) const = default;
};

using Times = std::map<Cell, std::vector<double>>;

std::string joined(const std::vector<std::size_t>& numbers) {
  return fmt::format("{}", fmt::join(numbers, ","));
}

void launch_contestant(const std::vector<std::string>& command, int processes,
                       const std::string& lab, Times& times, const std::string& who) {
  LaunchPlan plan;
  plan.lab = lab;
  plan.command = command;
  plan.workers = processes;
  plan.timeout = std::chrono::seconds(120);
  run_contestant(plan, who, [&](const json& event) {
    if (!event.contains("median_seconds")) return;
    times[{event["workers"], event["bytes"], {event["peer"], event["algorithm"]}}].push_back(
        event["median_seconds"]);
  });
}

void measure_gloo(int workers, const std::string& sizes, double seconds, const std::string& lab,
                  Times& times) {
  const std::string program = sibling_program("starling-peer-gloo");
  for (const char* algorithm : {"ring", "halving-doubling", "bcube"}) {
    const TemporaryFolder folder;  // where they meet
    launch_contestant(shell_reporting(fmt::format(
                          "exec '{}' --rank $STARLING_RANK --size {} --store '{}' --algorithm {} "
                          "--bytes {} --seconds {}",
                          program, workers, folder.path().string(), algorithm, sizes, seconds)),
                      workers, lab, times, fmt::format("gloo {}", algorithm));
  }
}

void measure_open_mpi(int workers, const std::string& sizes, double seconds, Times& times) {
  launch_contestant(
      shell_reporting(fmt::format(
          "exec mpirun --allow-run-as-root --oversubscribe -n {} --mca btl tcp,self --mca pml ob1 "
          "--mca btl_tcp_if_include lo '{}' --bytes {} --seconds {}",
          workers, sibling_program("starling-peer-mpi").string(), sizes, seconds)),
      1, "", times, "openmpi");
}

void print_results(const BenchCommand& command, const Times& times) {
  Table table({"workers", "size", "who", "algorithm", "median", "bandwidth", "best peer / this"});
  json rows = json::array();
  for (const auto& [cell, values] : times) {
    const double seconds = median(values);
    double best_peer = 0;
    std::string peer_name;
    for (const auto& [other, peer_values] : times) {
      if (other.workers != cell.workers || other.bytes != cell.bytes ||
          other.who.peer == "starling")
        continue;
      const double peer_seconds = median(peer_values);
      if (best_peer == 0 || peer_seconds < best_peer) {
        best_peer = peer_seconds;
        peer_name = other.who.peer;
      }
    }
    const bool ours = cell.who.peer == "starling";
    const bool compared = ours && best_peer > 0 && cell.who.algorithm != "pairwise";
    json row = {{"workers", cell.workers},
                {"bytes", cell.bytes},
                {"peer", cell.who.peer},
                {"algorithm", cell.who.algorithm},
                {"median_seconds", seconds},
                {"bytes_per_second", static_cast<double>(cell.bytes) / seconds}};
    if (compared) {
      row["best_peer"] = peer_name;
      row["ratio"] = best_peer / seconds;
    }
    rows.push_back(row);
    table.add({std::to_string(cell.workers), format_bytes(static_cast<double>(cell.bytes)),
               cell.who.peer, cell.who.algorithm,
               format_duration(std::chrono::nanoseconds(static_cast<long>(seconds * 1e9))),
               format_bytes(static_cast<double>(cell.bytes) / seconds) + "/s",
               compared ? fmt::format("{:.2f} ({})", best_peer / seconds, peer_name) : ""});
  }
  if (command.print_json) {
    fmt::print("{}\n", json{{"machine", machine_description()},
                            {"lab", command.lab},
                            {"rounds", command.rounds},
                            {"rows", rows}}
                           .dump());
    return;
  }
  fmt::print("all-reduce of float32 over {}, on {}, median of {} rounds\n\n{}",
             network_description(command.lab), machine_description(), command.rounds, table.text());
  fmt::print(
      "\nbandwidth is size / time; a ratio above 1 means that Starling is faster than the fastest "
      "peer\n");
}

void bench_exchange(BenchCommand& command) {
  std::vector<std::size_t> sizes;
  for (const std::string& size : command.sizes) {
    const std::uint64_t bytes = parse_bytes(size) / 4 * 4;
    if (bytes < 4 || bytes > (std::uint64_t{1} << 32)) {
      throw Error(fmt::format("--sizes {} cannot be measured", size), "it goes from 4B to 4GB");
    }
    sizes.push_back(bytes);
  }
  if (command.algorithms == std::vector<std::string>{"all"}) {
    command.algorithms.clear();
    for (const NamedAllreduce& each : kAllreduces) command.algorithms.emplace_back(each.name);
    command.algorithms.emplace_back("pairwise");
  }
  for (const std::string& algorithm : command.algorithms) {
    if (algorithm != "pairwise") find_allreduce(algorithm);
  }
  Times times;
  {
    ProgressBar bar("benchmark");
    const bool gloo = !command.no_peers && has_sibling_program("starling-peer-gloo");
    // mpirun starts its processes itself, and knows nothing of our hosts.
    const bool mpi =
        !command.no_peers && command.lab.empty() && has_sibling_program("starling-peer-mpi");
    if (!command.no_peers && !command.lab.empty()) {
      bar.say("note: Open MPI is not measured in a lab");
    } else if (!command.no_peers && !(gloo && mpi)) {
      bar.say(
          "note: not all peers are built; `make bench` installs Gloo and Open MPI and builds their "
          "drivers");
    }
    const std::size_t all = command.workers.size() * static_cast<std::size_t>(command.rounds);
    std::size_t done = 0;
    for (int workers : command.workers) {
      for (int round = 0; round < command.rounds; ++round) {
        bar.show(static_cast<double>(done++) / static_cast<double>(all),
                 fmt::format("{} workers, round {} of {}", workers, round + 1, command.rounds));
        launch_contestant({own_program(), "bench", "exchange-worker", "--algorithms",
                           fmt::format("{}", fmt::join(command.algorithms, ",")), "--bytes",
                           joined(sizes), "--seconds", fmt::format("{}", command.seconds)},
                          workers, command.lab, times, "starling");
        if (gloo) measure_gloo(workers, joined(sizes), command.seconds, command.lab, times);
        if (mpi) measure_open_mpi(workers, joined(sizes), command.seconds, times);
      }
    }
  }
  print_results(command, times);
}

}  // namespace

void add_bench_command(CLI::App& app) {
  auto command = std::make_shared<BenchCommand>();
  CLI::App* bench = app.add_subcommand("bench", "Measure how fast this machine's exchanges are");
  bench->require_subcommand(1);
  bench->footer("Example:\n  starling bench exchange --workers 4 --sizes 1MB,16MB,64MB");

  CLI::App* exchange =
      bench->add_subcommand("exchange", "All-reduces between processes over loopback TCP");
  exchange->footer(
      "Gloo and Open MPI are measured in the same run where their drivers were built (`make "
      "bench`).\n\n"
      "Example:\n"
      "  starling bench exchange --workers 4 --sizes 1MB,16MB,64MB\n"
      "  starling bench exchange --algorithms all --no-peers");
  exchange->add_option("--workers", command->workers, "numbers of processes")
      ->delimiter(',')
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  exchange->add_option("--sizes", command->sizes, "sizes of the vector")
      ->delimiter(',')
      ->capture_default_str();
  exchange->add_option("--algorithms", command->algorithms, "ring, tree, ... or all")
      ->delimiter(',')
      ->capture_default_str();
  exchange->add_option("--seconds", command->seconds, "time for each algorithm and size in a round")
      ->check(CLI::Range(0.01, 3600.0))
      ->capture_default_str();
  exchange->add_option("--rounds", command->rounds, "everybody takes turns so many times")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  add_lab_option(*exchange, command->lab);
  exchange->add_flag("--no-peers", command->no_peers, "measure only Starling");
  exchange->add_flag("--json", command->print_json, "print JSON");
  exchange->callback([command] { bench_exchange(*command); });

  add_server_bench(*bench);
  add_training_bench(*bench);

  CLI::App* worker = bench->add_subcommand("exchange-worker", "")->group("");
  worker->add_option("--algorithms", command->worker.algorithms)->delimiter(',')->required();
  worker->add_option("--bytes", command->worker.sizes_bytes)->delimiter(',')->required();
  worker->add_option("--seconds", command->worker.seconds);
  worker->callback([command] {
    try {
      run_exchange_bench(command->worker);
    } catch (const std::exception&) {  // reported to the launcher
      throw CLI::RuntimeError(1);
    }
  });
}

}  // namespace starling
