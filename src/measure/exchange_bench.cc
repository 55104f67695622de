#include "measure/exchange_bench.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "base/units.h"
#include "exchange/allreduce.h"
#include "launch/programs.h"
#include "measure/machine.h"
#include "net/mpi_comm.h"
#include "report/progress_bar.h"

namespace starling {

namespace {

using nlohmann::json;

constexpr const char* kGloo = "starling-peer-gloo";
constexpr const char* kMpi = "starling-peer-mpi";
constexpr const char* kEncrypted = "starling, encrypted";

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

struct Samples {
  std::vector<double> seconds;
  std::vector<double> processor_seconds;  // of one worker; Starling's only
};
using Times = std::map<Cell, Samples>;

// Of those who say of themselves who they are, unless it is said in `known`.
void take_times(const std::string& who, std::vector<std::string> command, int processes,
                const std::string& lab, Times& times, const Entry& known = {}) {
  LaunchPlan plan;
  plan.tls = known.peer == kEncrypted ? "on" : "off";
  plan.lab = lab;
  plan.command = std::move(command);
  plan.workers = processes;
  plan.timeout = std::chrono::seconds(120);
  run_contestant(plan, who, [&](const json& event) {
    if (!event.contains("median_seconds")) return;
    Entry entry = known;
    if (entry.peer.empty()) entry.peer = event["peer"].get<std::string>();
    if (entry.algorithm.empty()) entry.algorithm = event["algorithm"].get<std::string>();
    Samples& cell = times[{event["workers"], event["bytes"], entry}];
    cell.seconds.push_back(event["median_seconds"]);
    if (event.contains("processor_seconds")) {
      cell.processor_seconds.push_back(event["processor_seconds"]);
    }
  });
}

std::string sizes_of(const ExchangeBench& bench) {
  return fmt::format("{}", fmt::join(bench.sizes_bytes, ","));
}

std::vector<std::string> worker_command(const ExchangeBench& bench) {
  return {own_program(),
          "bench",
          "exchange-worker",
          "--algorithms",
          fmt::format("{}", fmt::join(bench.algorithms, ",")),
          "--bytes",
          sizes_of(bench),
          "--seconds",
          fmt::format("{}", bench.seconds)};
}

void measure_starling(const ExchangeBench& bench, int workers, bool encrypted, Times& times) {
  take_times("starling", worker_command(bench), workers, bench.lab, times,
             {encrypted ? kEncrypted : "", ""});
}

// Where mpirun finds as few cores as here, and root as its user.
constexpr const char* kMpirun =
    "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 "
    "OMPI_MCA_hwloc_base_binding_policy=none '" STARLING_MPIRUN "' -n";

// How MPI's processes wait, as Open MPI and MPICH are told it. Which is faster depends on what else
// runs, and MPI does not find out, so it is measured in both ways: Open MPI yields only where mpirun
// has started more processes than there are cores, MPICH after each 1000 looks.
struct Waiting {
  const char* name;
  const char* environment;
};
constexpr Waiting kWaiting[] = {
    {"spinning", "OMPI_MCA_mpi_yield_when_idle=0 MPIR_CVAR_POLLS_BEFORE_YIELD=0"},
    {"yielding", "OMPI_MCA_mpi_yield_when_idle=1 MPIR_CVAR_POLLS_BEFORE_YIELD=1"}};

// Both as MPI moves bytes between processes of this machine if it is left to itself: by shared memory.
void measure_over_mpi(const ExchangeBench& bench, int workers, Times& times) {
  take_times(
      "starling over MPI",
      shell_reporting(fmt::format(
          "exec env -u STARLING_BOARD STARLING_TRANSPORT=mpi STARLING_EVENTS_FD=1 {} {} '{}'",
          kMpirun, workers, fmt::join(worker_command(bench), "' '"))),
      1, "", times);
  if (bench.no_peers || !has_sibling_program(kMpi)) return;
  for (const Waiting& waiting : kWaiting) {
    take_times("MPI",
               shell_reporting(fmt::format(
                   "exec env {} {} {} '{}' --bytes {} --seconds {}", waiting.environment, kMpirun,
                   workers, sibling_program(kMpi).string(), sizes_of(bench), bench.seconds)),
               1, "", times, {"", waiting.name});
  }
}

void measure_gloo(const ExchangeBench& bench, int workers, Times& times) {
  for (const char* algorithm : {"ring", "halving-doubling", "bcube"}) {
    const TemporaryFolder folder;  // where they meet
    const std::string script = fmt::format(
        "exec '{}' --rank $STARLING_RANK --size {} --store '{}' --algorithm {} --bytes {} "
        "--seconds {}",
        sibling_program(kGloo).string(), workers, folder.path().string(), algorithm,
        sizes_of(bench), bench.seconds);
    take_times(fmt::format("gloo {}", algorithm), shell_reporting(script), workers, bench.lab,
               times);
  }
}

// mpirun starts its processes itself, and knows nothing of our hosts. Of the MPIs only this one is
// kept to TCP.
void measure_open_mpi(const ExchangeBench& bench, int workers, Times& times) {
  const std::string script =
      fmt::format("exec '" STARLING_MPIRUN
                  "' --allow-run-as-root --oversubscribe -n {} --mca btl tcp,self --mca pml ob1 "
                  "--mca btl_tcp_if_include lo '{}' --bytes {} --seconds {}",
                  workers, sibling_program(kMpi).string(), sizes_of(bench), bench.seconds);
  take_times("openmpi", shell_reporting(script), 1, "", times);
}

Times take_turns(const ExchangeBench& bench) {
  ProgressBar bar("benchmark");
  const bool gloo = !bench.no_peers && !bench.mpi && has_sibling_program(kGloo);
  const bool mpi = STARLING_OPEN_MPI && !bench.no_peers && !bench.mpi && bench.lab.empty() &&
                   has_sibling_program(kMpi);
  if (!bench.no_peers && !bench.lab.empty()) {
    bar.say("note: Open MPI is not measured in a lab");
  } else if (!bench.no_peers && !bench.mpi && !(gloo && mpi)) {
    bar.say(
        "note: not all peers are built; `make bench` installs Gloo and Open MPI and builds their "
        "drivers");
  }
  Times times;
  const std::size_t all = bench.workers.size() * static_cast<std::size_t>(bench.rounds);
  std::size_t done = 0;
  for (int workers : bench.workers) {
    for (int round = 0; round < bench.rounds; ++round) {
      bar.show(static_cast<double>(done++) / static_cast<double>(all),
               fmt::format("{} workers, round {} of {}", workers, round + 1, bench.rounds));
      if (bench.mpi) {
        measure_over_mpi(bench, workers, times);
        continue;
      }
      measure_starling(bench, workers, false, times);
      if (bench.tls) measure_starling(bench, workers, true, times);
      if (gloo) measure_gloo(bench, workers, times);
      if (mpi) measure_open_mpi(bench, workers, times);
    }
  }
  return times;
}

BenchResult result_of(const ExchangeBench& bench, const Times& times) {
  Table table({"workers", "size", "who", "algorithm", "median", "processor", "bandwidth",
               "best peer / this"});
  const auto duration = [](double seconds) {
    return format_duration(std::chrono::nanoseconds(static_cast<long>(seconds * 1e9)));
  };
  json rows = json::array();
  for (const auto& [cell, samples] : times) {
    const double seconds = median(samples.seconds);
    double best_peer = 0;
    std::string peer_name;
    for (const auto& [other, of_peer] : times) {
      if (other.workers != cell.workers || other.bytes != cell.bytes ||
          other.who.peer.starts_with("starling"))
        continue;
      const double peer_seconds = median(of_peer.seconds);
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
    std::string processor;
    if (!samples.processor_seconds.empty()) {
      row["processor_seconds"] = median(samples.processor_seconds);
      processor = duration(row["processor_seconds"]);
    }
    rows.push_back(row);
    table.add({std::to_string(cell.workers), format_bytes(static_cast<double>(cell.bytes)),
               cell.who.peer, cell.who.algorithm, duration(seconds), processor,
               format_bytes(static_cast<double>(cell.bytes) / seconds) + "/s",
               compared ? fmt::format("{:.2f} ({})", best_peer / seconds, peer_name) : ""});
  }
  const std::string machine = machine_description();
  return {.headline = fmt::format("all-reduce of float32 over {}, on {}, median of {} rounds",
                                  bench.mpi ? "MPI" : network_description(bench.lab), machine,
                                  bench.rounds),
          .table = table,
          .remarks =
              "processor is what one worker uses of one; bandwidth is size / time; a ratio above 1 "
              "means that Starling is faster than "
              "the fastest peer" +
              std::string(bench.mpi ? ", however its processes wait: MPI is measured spinning "
                                      "and yielding"
                                    : ""),
          .numbers = {
              {"machine", machine}, {"lab", bench.lab}, {"rounds", bench.rounds}, {"rows", rows}}};
}

}  // namespace

BenchResult bench_exchange(ExchangeBench bench) {
  if (bench.mpi) {
    check_has_mpi();
    if (!bench.lab.empty()) throw Error("mpirun knows nothing of a lab's hosts", "leave out --lab");
    if (bench.tls) throw Error("MPI does not encrypt", "leave out --tls");
  }
  if (bench.algorithms == std::vector<std::string>{"all"}) {
    bench.algorithms.clear();
    for (const NamedAllreduce& each : kAllreduces) bench.algorithms.emplace_back(each.name);
    bench.algorithms.insert(bench.algorithms.end(), {"auto", "pairwise"});
  }
  for (const std::string& algorithm : bench.algorithms) {
    if (algorithm != "pairwise") find_allreduce(algorithm);
  }
  return result_of(bench, take_turns(bench));
}

}  // namespace starling
