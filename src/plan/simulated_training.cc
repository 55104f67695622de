#include "plan/simulated_training.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"
#include "server/server.h"
#include "sim/cluster.h"
#include "strategy/dealer.h"
#include "strategy/grid.h"
#include "strategy/server_plan.h"
#include "strategy/step.h"

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

namespace {

class Simulation {
 public:
  explicit Simulation(const SimulatedTraining& training)
      : training_(training),
        workers_(static_cast<std::size_t>(training.settings.workers)),
        cluster_(training.settings.workers + server_processes(training.settings),
                 training.network) {
    check_settings(training.settings);
    result_.weights.resize(workers_);
    result_.batches.resize(workers_);
    result_.order.resize(workers_);
    cluster_.faults() = training.faults;
    cluster_.faults().seed = training.seed;
  }

  SimulatedResult run() {
    result_.errors = cluster_.live([this](Comm& comm) {
      return static_cast<std::size_t>(comm.rank()) < workers_ ? work(comm) : serve(comm);
    });
    result_.end = cluster_.loop().now();
    for (int rank = 0; rank < cluster_.size(); ++rank) {
      const Ledger& ledger = cluster_.comm(rank).ledger();
      result_.wire_bytes_sent.push_back(ledger.total(Direction::sent).wire);
      result_.wire_bytes_received.push_back(ledger.total(Direction::received).wire);
    }
    return std::move(result_);
  }

 private:
  Task<> serve(Comm& comm) {
    Server server(serving_group(training_.settings, comm), server_options(training_.settings));
    const int index = comm.rank() - training_.settings.workers;
    if (training_.on_update) {
      server.follow([this, index](const Block& block, std::span<const Push> pushes) {
        training_.on_update(index, block, pushes);
      });
    }
    co_await server.serve();
  }

  Task<> work(Comm& comm) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    std::vector<float>& weights = result_.weights[rank];
    std::vector<float> gradients(training_.elements);
    weights.assign(training_.elements, comm.rank() == 0 ? 0.0f : 9.0f);
    const Replica replica{weights, gradients};
    const std::vector<Bucket> buckets = make_buckets(replica, parameters(), 0);
    Workload workload;
    workload.buckets = ranges_of(buckets);
    workload.batches = training_.batches;
    workload.batches_per_epoch = training_.batches_per_epoch;
    const auto strategy = make_strategy(training_.settings, comm, workload);
    const auto dealer = make_dealer(training_.settings, comm, workload, *strategy);
    Step step(*strategy, replica, buckets);
    co_await strategy->start(replica);
    result_.start = std::max(result_.start, comm.loop().now());

    while (true) {
      Task<std::optional<std::uint64_t>> next = dealer->next();
      const std::optional<std::uint64_t> batch = co_await next;
      if (!batch) break;
      const bool works = !strategy->rests();
      if (works) {
        result_.order[rank].push_back(*batch);
        for (std::size_t i = 0; i < gradients.size(); ++i) {
          gradients[i] = weights[i] - simulated_target(i) + simulated_noise(training_, *batch, i);
        }
        co_await sleep_until(comm.loop(), comm.loop().now() + compute_time(comm.rank(), *batch));
      }
      dealer->look_ahead();
      const double rate = rate_of(*batch);
      strategy->set_rate(rate);
      Task<bool> taken = step.take([&] { descend(weights, gradients, rate); });
      co_await taken;
      if (!works) continue;
      ++result_.batches[rank];
      result_.time = std::max(result_.time, comm.loop().now());
    }
    co_await strategy->finish(replica);
    if (const MixReport* report = strategy->mix_report()) result_.mixing += *report;
    if (!result_.server) result_.server = strategy->server_report();
  }

  // As many of the same size as there are to be buckets.
  std::vector<Range> parameters() const {
    const auto count = static_cast<std::size_t>(training_.buckets);
    std::vector<Range> ranges;
    for (std::size_t i = 0; i < count; ++i) ranges.push_back(part(training_.elements, count, i));
    return ranges;
  }

  double rate_of(std::uint64_t batch) const {
    return training_.settings.lr_schedule.share(
        batch / workers_, training_.batches_per_epoch / workers_, training_.batches / workers_);
  }

  void descend(std::vector<float>& weights, const std::vector<float>& gradients,
               double rate) const {
    const auto lr = static_cast<float>(training_.settings.optimizer.lr * rate);
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= lr * gradients[i];
  }

  Time compute_time(int rank, std::uint64_t batch) const {
    const auto slow = slow_worker(training_.settings);
    const double factor = slow && slow->who == rank ? slow->factor : 1;
    Random random{training_.seed, batch, 0xc0};
    const double time = static_cast<double>(training_.compute.count()) * factor *
                        (1 + training_.jitter * random.uniform());
    return Time(std::llround(time));
  }

  const SimulatedTraining& training_;
  std::size_t workers_;
  Cluster cluster_;
  SimulatedResult result_;
};

}  // namespace

SimulatedResult simulate(const SimulatedTraining& training) { return Simulation(training).run(); }

}  // namespace starling
