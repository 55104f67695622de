#include "measure/server_worker.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "base/error.h"
#include "exchange/collectives.h"
#include "job/session.h"
#include "job/worker_events.h"
#include "server/client.h"
#include "server/lanes.h"
#include "strategy/grid.h"
#include "strategy/server_plan.h"

namespace starling {

namespace {

constexpr float kBenchRate = 1e-3f;
constexpr float kGradient = 1e-3f;

class ServerWorker {
 public:
  ServerWorker(Job job, const Settings& settings) : settings_(settings), session_(std::move(job)) {}

  void measure(std::size_t bytes, double seconds) {
    const std::size_t elements = bytes / sizeof(float);
    std::vector<float> weights(elements, 0.0f);
    const std::vector<float> gradient(elements, kGradient);
    const int servers = server_count(settings_);
    ServerClient client(serving_group(settings_, comm()),
                        {.first_server = first_server(settings_),
                         .servers = servers,
                         .replicas = settings_.server.replicas},
                        cut_into_keys(elements, servers, {}, kLargestBlockElements));
    Lanes lanes(client.keys());
    run(begin(client, weights));
    constexpr int kWarmUp = 3;
    for (int i = 0; i < kWarmUp; ++i) run(round(client, lanes, gradient, weights));
    run(meet());
    const Time start = now();
    const auto limit = std::chrono::duration_cast<Time>(std::chrono::duration<double>(seconds));
    std::uint64_t rounds = 0;
    while (now() - start < limit) {
      run(round(client, lanes, gradient, weights));
      ++rounds;
    }
    const double time = std::chrono::duration<double>(now() - start).count();
    check(weights, kWarmUp + rounds);
    run(end(client));
    report_event(session_.job(), {{"event", "bench"},
                                  {"iterations", rounds},
                                  {"bytes_per_second", 2.0 * static_cast<double>(bytes) *
                                                           static_cast<double>(rounds) / time}});
  }

 private:
  Comm& comm() { return session_.comm(); }
  void run(Task<> task) { session_.run("a benchmark round", std::move(task)); }
  Time now() { return session_.loop().now(); }

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
    return barrier(Group(comm()).first(settings_.workers, 0), {0, Purpose::control});
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

  Settings settings_;
  Session session_;
  std::uint64_t pushes_ = 0;
};

}  // namespace

Settings server_bench_settings(int workers, int servers, int replicas) {
  Settings settings;
  settings.strategy = StrategyKind::server;
  settings.workers = workers;
  settings.server.servers = servers;
  settings.server.replicas = replicas;
  settings.server.gate.kind = GateSettings::Kind::async;
  settings.optimizer.lr = static_cast<double>(kBenchRate);
  settings.optimizer.momentum = 0;
  return settings;
}

void time_push_and_pull(Job job, std::size_t bytes, double seconds) {
  Settings settings;
  read_settings(job.settings, "the launcher's settings", settings);
  job.terms = agreed_settings(settings);
  ServerWorker(std::move(job), settings).measure(bytes, seconds);
}

}  // namespace starling
