// Workers that do what a test tells them, each at its time, beside real servers in the simulator.
#pragma once

#include <chrono>
#include <map>
#include <vector>

#include "server/client.h"
#include "server/server.h"
#include "sim/cluster.h"

namespace starling {

struct Act {
  enum class Kind { push, pull, push_pull, settle, nothing, leave };

  std::chrono::milliseconds at;
  Kind kind;
  float gradient = 0;  // of every element
};

// What a worker was answered: of the first block, with its first element.
struct Answer {
  WeightsHeader header;
  float weight;
};

// Ranks 0 to workers - 1 are the workers, the servers stand behind them. Every worker says hello,
// reads the first weights, does its acts, says done, reads the final weights and says bye.
class ScriptedWorkers {
 public:
  ScriptedWorkers(const ServerOptions& options, std::vector<std::vector<Act>> acts,
                  std::vector<Key> keys = {{0, {0, 1}}})
      : cluster(options.workers + keys.back().server + 1),
        plans(acts.size()),
        keys_of(acts.size(), keys),
        answers(acts.size()),
        weights(acts.size(), std::vector<float>(keys.back().range.end, 10.0f)),
        reports(acts.size()),
        options_(options),
        acts_(std::move(acts)),
        servers_(keys.back().server + 1) {}

  void run() {
    for (const std::exception_ptr& error : try_run()) {
      if (error) std::rethrow_exception(error);
    }
  }
  std::vector<std::exception_ptr> try_run() {
    return cluster.try_run(
        [this](Comm& comm) { return comm.rank() < options_.workers ? work(comm) : serve(comm); });
  }

  Cluster cluster;
  Time hello_at{0};
  std::vector<WorkPlan> plans;            // that each worker announces,
  std::vector<std::vector<Key>> keys_of;  // and the blocks
  std::vector<std::vector<Answer>> answers;
  std::vector<std::vector<float>> weights;  // each worker's final ones
  std::vector<ServerReport> reports;
  Block::Follower follower;

 private:
  Task<> serve(Comm& comm) {
    Server server(comm, options_);
    if (follower) server.follow(follower);
    co_await server.serve();
  }

  Task<> work(Comm& comm) {
    const auto worker = static_cast<std::size_t>(comm.rank());
    if (!make_gate(options_.gate)->needs_everybody()) {
      Group(comm).first(options_.workers, 0).contain_losses();
    }
    ServerClient client(comm, {options_.workers, servers_, false}, keys_of[worker]);
    co_await sleep_until(comm.loop(), hello_at);
    co_await client.hello(plans[worker]);
    for (std::size_t key = 0; key < client.keys().size() && worker == 0; ++key) {
      co_await client.put(key, of_key(client, worker, key));
    }
    co_await pull(client, worker);
    answers[worker].clear();
    std::uint64_t clock = 0;
    for (const Act& act : acts_[worker]) {
      co_await sleep_until(comm.loop(), Time(act.at));
      if (act.kind == Act::Kind::leave) co_return;
      co_await perform(client, worker, act, clock);
    }
    Task<ServerReport> done = client.done();
    reports[worker] = co_await done;
    co_await pull(client, worker);
    answers[worker].pop_back();
    co_await client.bye();
  }

  Task<> perform(ServerClient& client, std::size_t worker, const Act& act, std::uint64_t& clock) {
    const std::vector<float> gradient(weights[worker].size(), act.gradient);
    for (std::size_t key = 0; key < client.keys().size(); ++key) {
      const auto of_block = std::span(gradient).first(client.keys()[key].range.size());
      if (act.kind == Act::Kind::push) co_await client.push(key, of_block, clock);
      if (act.kind == Act::Kind::settle) co_await client.settle(key);
      if (act.kind == Act::Kind::push_pull) {
        Task<WeightsHeader> answer =
            client.push_pull(key, of_block, clock, of_key(client, worker, key));
        client.adopt(key, co_await answer);
      }
    }
    if (act.kind == Act::Kind::push || act.kind == Act::Kind::push_pull) ++clock;
    if (act.kind == Act::Kind::pull) co_await pull(client, worker);
    if (act.kind == Act::Kind::push_pull) note(client, worker);
  }

  Task<> pull(ServerClient& client, std::size_t worker) {
    for (std::size_t key = 0; key < client.keys().size(); ++key) {
      Task<WeightsHeader> answer = client.pull(key, of_key(client, worker, key));
      client.adopt(key, co_await answer);
    }
    note(client, worker);
  }

  void note(const ServerClient& client, std::size_t worker) {
    answers[worker].push_back({client.held(0), weights[worker][0]});
  }

  std::span<float> of_key(const ServerClient& client, std::size_t worker, std::size_t key) {
    const Range range = client.keys()[key].range;
    return std::span(weights[worker]).subspan(range.begin, range.size());
  }

  ServerOptions options_;
  std::vector<std::vector<Act>> acts_;
  int servers_;
};

inline ServerOptions options_for(int workers, GateSettings::Kind gate) {
  ServerOptions options;
  options.workers = workers;
  options.gate.kind = gate;
  options.gate.delay_bound = 0;
  options.gate.quorum = 1;
  options.optimizer.lr = 1;
  return options;
}

}  // namespace starling
