#include "plan/simulated_training.h"

#include <cmath>
#include <numeric>

#include "base/error.h"
#include "plan/simulated_work.h"
#include "sim/cluster.h"
#include "strategy/server_plan.h"

namespace starling {

float simulated_target(std::size_t i) {
  return static_cast<float>(std::sin(static_cast<double>(i)));
}

float simulated_noise(const SimulatedTraining& training, std::uint64_t batch, std::size_t i) {
  if (training.noise == 0) return 0;
  // A generator for each weight of each batch would take longer than all else; a hash will do.
  std::uint64_t hash = (training.seed * 0x9e3779b97f4a7c15 + batch) * 0xbf58476d1ce4e5b9 + i;
  for (int round = 0; round < 2; ++round) hash = (hash ^ (hash >> 29)) * 0x94d049bb133111eb;
  const double uniform = static_cast<double>(hash >> 11) * 0x1.0p-53;
  return static_cast<float>(training.noise * (2 * uniform - 1));
}

std::uint64_t SimulatedResult::all_batches() const {
  return std::accumulate(batches.begin(), batches.end(), std::uint64_t{0});
}

double SimulatedResult::batches_per_second() const {
  return static_cast<double>(all_batches()) / std::chrono::duration<double>(time - start).count();
}

int simulated_ranks(const Settings& settings) {
  return settings.workers + server_processes(settings);
}

SimulatedResult simulate(const SimulatedTraining& training) {
  Cluster cluster(simulated_ranks(training.settings), training.network);
  cluster.faults() = training.faults;
  cluster.faults().seed = training.seed;
  SimulatedWork work(training, cluster.loop());
  cluster.loop().at(training.deadline,
                    [] { throw Error("somebody was still at it at the deadline"); });
  SimulatedResult& result = work.result();
  result.errors = cluster.live([&work](Comm& comm) { return work.live(comm); });
  result.end = cluster.loop().now();
  for (int rank = 0; rank < cluster.size(); ++rank) {
    const Ledger& ledger = cluster.comm(rank).ledger();
    result.wire_bytes_sent.push_back(ledger.total(Direction::sent).wire);
    result.wire_bytes_received.push_back(ledger.total(Direction::received).wire);
  }
  return std::move(result);
}

}  // namespace starling
