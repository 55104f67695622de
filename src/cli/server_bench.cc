#include "cli/server_bench.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <memory>

#include "base/error.h"
#include "base/units.h"
#include "cli/contestants.h"
#include "cli/machine.h"
#include "job/join.h"
#include "job/worker_events.h"
#include "launch/add_servers.h"
#include "launch/programs.h"
#include "report/progress_bar.h"
#include "report/table.h"
#include "runtime/race.h"
#include "server/client.h"
#include "server/lanes.h"
#include "strategy/server_plan.h"

namespace starling {

namespace {

using nlohmann::json;

struct ServerBench {
  std::vector<int> workers = {1, 2, 3, 4};
  std::vector<int> servers = {1, 2};
  std::vector<std::string> sizes = {"1MB", "16MB"};
  double seconds = 1;
  int rounds = 9;
  std::string lab;
  bool no_peers = false;
  bool print_json = false;
};

struct Setup {
  int servers;
  int workers;
  std::size_t bytes;
  std::string who;
  auto operator<=>(const Setup&) const = default;
};
using Rates = std::map<Setup, std::vector<double>>;  // bytes a second, one a round

constexpr float kBenchRate = 1e-3f;
constexpr float kGradient = 1e-3f;

// One worker: pushes its gradient and pulls the weights, as often as it can.
class BenchWorker {
 public:
  BenchWorker(const Job& job, const Settings& settings)
      : job_(job), settings_(settings), member_(join(loop_, job)) {}

  void measure(std::size_t bytes, double seconds) {
    const std::size_t elements = bytes / sizeof(float);
    std::vector<float> weights(elements, 0.0f);
    const std::vector<float> gradient(elements, kGradient);
    const int servers = server_count(settings_);
    ServerClient client(comm(), {first_server(settings_), servers, false},
                        cut_into_keys(elements, servers, {}, kLargestBlockElements));
    Lanes lanes(client.keys());
    run(begin(client, weights));
    constexpr int kWarmUp = 3;
    for (int i = 0; i < kWarmUp; ++i) run(round(client, lanes, gradient, weights));
    run(meet());
    const Time start = loop_.now();
    const auto limit = std::chrono::duration_cast<Time>(std::chrono::duration<double>(seconds));
    std::uint64_t rounds = 0;
    while (loop_.now() - start < limit) {
      run(round(client, lanes, gradient, weights));
      ++rounds;
    }
    const double time = std::chrono::duration<double>(loop_.now() - start).count();
    check(weights, kWarmUp + rounds);
    run(end(client));
    report_event(job_, {{"event", "bench"},
                        {"iterations", rounds},
                        {"bytes_per_second",
                         2.0 * static_cast<double>(bytes) * static_cast<double>(rounds) / time}});
  }

 private:
  Comm& comm() { return member_.comm(); }
  void run(Task<> task) {
    loop_.run(within(loop_, loop_.now() + job_.timeout, "a benchmark round", std::move(task)));
  }

  static std::span<float> of_key(const Key& key, std::span<float> values) {
    return values.subspan(key.range.begin, key.range.size());
  }

  Task<> begin(ServerClient& client, std::span<float> weights) {
    co_await client.hello({});
    for (std::size_t key = 0; key < client.keys().size(); ++key) {
      const std::span<float> block = of_key(client.keys()[key], weights);
      if (comm().rank() == 0) co_await client.put(key, block);
      Task<WeightsHeader> pull = client.pull(key, block);
      client.adopt(key, co_await pull);
    }
  }

  Task<> exchange(ServerClient& client, std::size_t key, std::span<const float> gradient,
                  std::span<float> weights) {
    const Range range = client.keys()[key].range;
    Task<WeightsHeader> answer =
        client.push_pull(key, gradient.subspan(range.begin, range.size()), pushes_,
                         weights.subspan(range.begin, range.size()));
    client.adopt(key, co_await answer);
  }
  Task<> round(ServerClient& client, Lanes& lanes, std::span<const float> gradient,
               std::span<float> weights) {
    co_await lanes.take(0, client.keys().size(), [&, gradient, weights](std::size_t key) {
      return exchange(client, key, gradient, weights);
    });
    ++pushes_;
  }

  Task<> end(ServerClient& client) {
    Task<ServerReport> done = client.done();
    co_await done;
    co_await client.bye();
  }

  // Workers begin together.
  Task<> meet() {
    constexpr Channel kChannel{0, Purpose::control};
    for (int rank = 1; rank < settings_.workers && comm().rank() == 0; ++rank) {
      co_await comm().receive(rank, kChannel, Bytes());
    }
    if (comm().rank() > 0) {
      co_await comm().send(0, kChannel, ConstBytes());
      co_await comm().receive(0, kChannel, Bytes());
    }
    for (int rank = 1; rank < settings_.workers && comm().rank() == 0; ++rank) {
      co_await comm().send(rank, kChannel, ConstBytes());
    }
  }

  // With one worker the weights are known; with several, at least our own pushes are in them.
  void check(std::span<const float> weights, std::uint64_t rounds) const {
    const double moved = static_cast<double>(kBenchRate) * static_cast<double>(kGradient);
    const double least = moved * static_cast<double>(rounds);
    for (std::size_t i = 0; i < weights.size(); i += 997) {
      const double distance = -static_cast<double>(weights[i]);
      const bool exact = std::abs(distance - least) <= 0.01 * least;
      if (settings_.workers == 1 ? !exact : distance < 0.99 * least) {
        throw Error(fmt::format("the servers hold {} where {} was expected", weights[i], -least));
      }
    }
  }

  Job job_;
  Settings settings_;
  TcpLoop loop_;
  Membership member_;
  std::uint64_t pushes_ = 0;
};

Settings bench_settings(int workers, int servers) {
  Settings settings;
  settings.strategy = "server";
  settings.workers = workers;
  settings.servers = servers;
  settings.gate = "async";
  settings.lr = static_cast<double>(kBenchRate);
  settings.momentum = 0;
  return settings;
}

void measure_starling(const ServerBench& bench, int workers, int servers, std::size_t bytes,
                      Rates& rates) {
  const Settings settings = bench_settings(workers, servers);
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
  plan.survives_losses = false;
  double rate = 0;
  run_contestant(plan, "starling",
                 [&](const json& event) { rate += event.value("bytes_per_second", 0.0); });
  rates[{servers, workers, bytes, "starling"}].push_back(rate);
}

void measure_zeromq(const ServerBench& bench, int workers, int servers, std::size_t bytes,
                    Rates& rates) {
  LaunchPlan plan;
  plan.command = shell_reporting(fmt::format(
      "exec '{}' --workers {} --servers {} --bytes {} --seconds {}",
      sibling_program("starling-peer-zmq").string(), workers, servers, bytes, bench.seconds));
  run_contestant(plan, "zeromq", [&](const json& event) {
    rates[{servers, workers, bytes, "zeromq"}].push_back(event.value("bytes_per_second", 0.0));
  });
}

void print_results(const ServerBench& bench, const Rates& rates) {
  Table table({"servers", "workers", "size", "starling", "zeromq", "starling / zeromq"});
  json rows = json::array();
  for (const auto& [key, values] : rates) {
    if (key.who != "starling") continue;
    const double ours = median(values);
    const auto peer = rates.find({key.servers, key.workers, key.bytes, "zeromq"});
    json row = {{"servers", key.servers},
                {"workers", key.workers},
                {"bytes", key.bytes},
                {"bytes_per_second", ours}};
    std::string theirs, ratio;
    if (peer != rates.end()) {
      const double rate = median(peer->second);
      row["zeromq_bytes_per_second"] = rate;
      row["ratio"] = ours / rate;
      theirs = fmt::format("{:.2f} GB/s", rate / 1e9);
      ratio = fmt::format("{:.2f}", ours / rate);
    }
    rows.push_back(row);
    table.add({std::to_string(key.servers), std::to_string(key.workers),
               format_bytes(static_cast<double>(key.bytes)), fmt::format("{:.2f} GB/s", ours / 1e9),
               theirs, ratio});
  }
  if (bench.print_json) {
    fmt::print("{}\n", json{{"machine", machine_description()},
                            {"lab", bench.lab},
                            {"rounds", bench.rounds},
                            {"rows", rows}}
                           .dump());
    return;
  }
  fmt::print(
      "push and pull of float32 over {}, applied by SGD as they come, on {}, median of {} "
      "rounds\n\n{}\nbytes pushed and pulled by all workers together, a second\n",
      network_description(bench.lab), machine_description(), bench.rounds, table.text());
}

void bench_server(const ServerBench& bench) {
  std::vector<std::size_t> sizes;
  for (const std::string& size : bench.sizes) {
    const std::uint64_t bytes = parse_bytes(size) / 4 * 4;
    if (bytes < 1024 || bytes > (std::uint64_t{1} << 32)) {
      throw Error(fmt::format("--sizes {} cannot be measured", size), "it goes from 1KB to 4GB");
    }
    sizes.push_back(bytes);
  }
  Rates rates;
  {
    ProgressBar bar("benchmark");
    // Its driver is one process, and knows nothing of our hosts.
    const bool peer =
        !bench.no_peers && bench.lab.empty() && has_sibling_program("starling-peer-zmq");
    if (!bench.no_peers && !bench.lab.empty()) {
      bar.say("note: ZeroMQ is not measured in a lab");
    } else if (!bench.no_peers && !peer) {
      bar.say(
          "note: the ZeroMQ driver is not built; `make bench` installs libzmq3-dev and builds it");
    }
    const std::size_t all = bench.servers.size() * bench.workers.size() * sizes.size() *
                            static_cast<std::size_t>(bench.rounds);
    std::size_t done = 0;
    for (int round = 0; round < bench.rounds; ++round) {
      for (int servers : bench.servers) {
        for (int workers : bench.workers) {
          for (std::size_t bytes : sizes) {
            bar.show(static_cast<double>(done++) / static_cast<double>(all),
                     fmt::format("round {} of {}: {} servers, {} workers", round + 1, bench.rounds,
                                 servers, workers));
            measure_starling(bench, workers, servers, bytes, rates);
            if (peer) measure_zeromq(bench, workers, servers, bytes, rates);
          }
        }
      }
    }
  }
  print_results(bench, rates);
}

void run_bench_worker(std::size_t bytes, double seconds) {
  const Job job = job_from_environment();
  try {
    Settings settings;
    read_settings(job.settings, "the launcher's settings", settings);
    BenchWorker(job, settings).measure(bytes, seconds);
  } catch (const std::exception& error) {
    report_error(job, error);
    throw CLI::RuntimeError(1);
  }
}

}  // namespace

void add_server_bench(CLI::App& bench) {
  auto options = std::make_shared<ServerBench>();
  CLI::App* server =
      bench.add_subcommand("server", "Push and pull between workers and parameter servers");
  server->footer(
      "A plain ZeroMQ program is measured in the same run where it was built (`make bench`).\n\n"
      "Example:\n"
      "  starling bench server --workers 1,4 --servers 1 --sizes 16MB");
  server->add_option("--workers", options->workers, "numbers of workers")
      ->delimiter(',')
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  server->add_option("--servers", options->servers, "numbers of servers")
      ->delimiter(',')
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  server->add_option("--sizes", options->sizes, "sizes of the model")
      ->delimiter(',')
      ->capture_default_str();
  server->add_option("--seconds", options->seconds, "time for each measurement")
      ->check(CLI::Range(0.01, 3600.0))
      ->capture_default_str();
  server->add_option("--rounds", options->rounds, "everybody takes turns so many times")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  add_lab_option(*server, options->lab);
  server->add_flag("--no-peers", options->no_peers, "measure only Starling");
  server->add_flag("--json", options->print_json, "print JSON");
  server->callback([options] { bench_server(*options); });

  struct Hidden {
    std::size_t bytes = 0;
    double seconds = 0.5;
  };
  auto hidden = std::make_shared<Hidden>();
  CLI::App* worker = bench.add_subcommand("server-worker", "")->group("");
  worker->add_option("--bytes", hidden->bytes)->required();
  worker->add_option("--seconds", hidden->seconds);
  worker->callback([hidden] { run_bench_worker(hidden->bytes, hidden->seconds); });
}

}  // namespace starling
