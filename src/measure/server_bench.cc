#include "measure/server_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/units.h"
#include "launch/add_servers.h"
#include "launch/programs.h"
#include "measure/machine.h"
#include "measure/server_worker.h"
#include "report/progress_bar.h"
#include "strategy/server_plan.h"

namespace starling {

namespace {

using nlohmann::json;

constexpr const char* kZeroMq = "starling-peer-zmq";

struct Setup {
  int servers;
  int workers;
  std::size_t bytes;
  int replicas;
  std::string who;
  auto operator<=>(const Setup&) const = default;
};
using Rates = std::map<Setup, std::vector<double>>;  // bytes a second, one a round

void measure_starling(const ServerBench& bench, int workers, int servers, std::size_t bytes,
                      int replicas, Rates& rates) {
  const Settings settings = server_bench_settings(workers, servers, replicas);
  check_servers(settings);
  LaunchPlan plan;
  plan.command = {own_program(),
                  "bench",
                  "server-worker",
                  "--bytes",
                  fmt::format("{}", bytes),
                  "--seconds",
                  fmt::format("{}", bench.seconds)};
  plan.workers = workers;
  plan.lab = bench.lab;
  plan.settings = write_settings(settings);
  add_servers(settings, plan);
  plan.survives_losses = plan.survives_lost_servers = false;
  double rate = 0;
  run_contestant(plan, "starling",
                 [&](const json& event) { rate += event.value("bytes_per_second", 0.0); });
  rates[{servers, workers, bytes, replicas, "starling"}].push_back(rate);
}

void measure_zeromq(const ServerBench& bench, int workers, int servers, std::size_t bytes,
                    Rates& rates) {
  LaunchPlan plan;
  plan.command = shell_reporting(
      fmt::format("exec '{}' --workers {} --servers {} --bytes {} --seconds {}",
                  sibling_program(kZeroMq).string(), workers, servers, bytes, bench.seconds));
  run_contestant(plan, "zeromq", [&](const json& event) {
    rates[{servers, workers, bytes, 1, "zeromq"}].push_back(event.value("bytes_per_second", 0.0));
  });
}

Rates take_turns(const ServerBench& bench) {
  ProgressBar bar("benchmark");
  // Its driver is one process, and knows nothing of our hosts.
  const bool peer = !bench.no_peers && bench.lab.empty() && has_sibling_program(kZeroMq);
  if (!bench.no_peers && !bench.lab.empty()) {
    bar.say("note: ZeroMQ is not measured in a lab");
  } else if (!bench.no_peers && !peer) {
    bar.say(
        "note: the ZeroMQ driver is not built; `make bench` installs libzmq3-dev and builds it");
  }
  const std::size_t all = bench.servers.size() * bench.workers.size() * bench.sizes_bytes.size() *
                          static_cast<std::size_t>(bench.rounds);
  Rates rates;
  std::size_t done = 0;
  for (int round = 0; round < bench.rounds; ++round) {
    for (int servers : bench.servers) {
      for (int workers : bench.workers) {
        for (std::size_t bytes : bench.sizes_bytes) {
          bar.show(static_cast<double>(done++) / static_cast<double>(all),
                   fmt::format("round {} of {}: {} servers, {} workers", round + 1, bench.rounds,
                               servers, workers));
          for (int replicas : bench.replicas) {
            if (replicas == 1 || replicas <= servers) {
              measure_starling(bench, workers, servers, bytes, replicas, rates);
            }
          }
          if (peer) measure_zeromq(bench, workers, servers, bytes, rates);
        }
      }
    }
  }
  return rates;
}

BenchResult result_of(const ServerBench& bench, const Rates& rates) {
  const bool replicates = std::ranges::any_of(bench.replicas, [](int each) { return each > 1; });
  Table table(replicates ? std::vector<std::string>{"servers", "workers", "size", "replicas",
                                                    "starling", "of 1 replica"}
                         : std::vector<std::string>{"servers", "workers", "size", "starling",
                                                    "zeromq", "starling / zeromq"});
  json rows = json::array();
  for (const auto& [key, values] : rates) {
    if (key.who != "starling") continue;
    const double ours = median(values);
    const auto peer = rates.find({key.servers, key.workers, key.bytes, key.replicas, "zeromq"});
    const auto one = rates.find({key.servers, key.workers, key.bytes, 1, "starling"});
    json row = {{"servers", key.servers},
                {"workers", key.workers},
                {"bytes", key.bytes},
                {"replicas", key.replicas},
                {"bytes_per_second", ours}};
    std::string theirs, ratio;
    if (peer != rates.end()) {
      const double rate = median(peer->second);
      row["zeromq_bytes_per_second"] = rate;
      row["ratio"] = ours / rate;
      theirs = fmt::format("{:.2f} GB/s", rate / 1e9);
      ratio = fmt::format("{:.2f}", ours / rate);
    }
    std::vector<std::string> cells = {std::to_string(key.servers), std::to_string(key.workers),
                                      format_bytes(static_cast<double>(key.bytes))};
    const std::string rate = fmt::format("{:.2f} GB/s", ours / 1e9);
    if (replicates) {
      const double of_one = one == rates.end() ? 0 : ours / median(one->second);
      if (one != rates.end()) row["of_one_replica"] = of_one;
      cells.insert(cells.end(), {std::to_string(key.replicas), rate,
                                 one == rates.end() ? "" : fmt::format("{:.2f}", of_one)});
    } else {
      cells.insert(cells.end(), {rate, theirs, ratio});
    }
    rows.push_back(row);
    table.add(cells);
  }
  const std::string machine = machine_description();
  return {.headline = fmt::format("push and pull of float32 over {}, applied by SGD as they come, "
                                  "on {}, median of {} rounds",
                                  network_description(bench.lab), machine, bench.rounds),
          .table = table,
          .remarks = "bytes pushed and pulled by all workers together, a second",
          .numbers = {
              {"machine", machine}, {"lab", bench.lab}, {"rounds", bench.rounds}, {"rows", rows}}};
}

}  // namespace

BenchResult bench_server(const ServerBench& bench) {
  const int most = std::ranges::max(bench.replicas);
  if (most > std::ranges::max(bench.servers)) {
    throw Error(fmt::format("--replicas {}: none of the numbers of servers is as large", most),
                fmt::format("add --servers {}", most));
  }
  return result_of(bench, take_turns(bench));
}

}  // namespace starling
