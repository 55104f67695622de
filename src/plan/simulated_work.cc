#include "plan/simulated_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "runtime/race.h"
#include "server/server.h"
#include "strategy/dealer.h"
#include "strategy/grid.h"
#include "strategy/server_plan.h"
#include "strategy/step.h"

namespace starling {

SimulatedWork::SimulatedWork(const SimulatedTraining& training, SimLoop& world)
    : training_(training),
      world_(world),
      workers_(static_cast<std::size_t>(training.settings.workers)) {
  check_settings(training.settings);
  result_.weights.resize(workers_);
  result_.batches.resize(workers_);
  result_.order.resize(workers_);
  result_.started.resize(workers_);
  result_.finished.resize(static_cast<std::size_t>(simulated_ranks(training.settings)));
}

Task<> SimulatedWork::live(Comm& comm) {
  const auto rank = static_cast<std::size_t>(comm.rank());
  result_.finished[rank].reset();
  if (rank < workers_) {
    co_await work(comm);
  } else {
    co_await serve(comm);
  }
  result_.finished[rank] = world_.now();
  tell(comm.rank(), "has finished");
}

void SimulatedWork::tell(int rank, const std::string& what) const {
  if (training_.on_event) training_.on_event(world_.now(), rank, what);
}

Task<> SimulatedWork::serve(Comm& comm) {
  Server server(serving_group(training_.settings, comm), server_options(training_.settings));
  const int index = comm.rank() - training_.settings.workers;
  if (training_.on_update) {
    server.follow([this, index](const Block& block, std::span<const Push> pushes) {
      training_.on_update(index, block, pushes);
    });
  }
  co_await server.serve();
}

namespace {
Task<> ask(Dealer& dealer, std::optional<std::uint64_t>& batch) {
  Task<std::optional<std::uint64_t>> next = dealer.next();
  batch = co_await next;
}
}  // namespace

Task<> SimulatedWork::wait(Comm& comm, const char* what, Task<> task) const {
  if (training_.timeout == Time(0)) return task;
  return within(comm.loop(), comm.loop().now() + training_.timeout, what, std::move(task));
}

Task<> SimulatedWork::work(Comm& comm) {
  const auto rank = static_cast<std::size_t>(comm.rank());
  result_.started[rank].reset();
  result_.order[rank].clear();  // of a process that was there before
  result_.batches[rank] = 0;
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
  Step::Driver driver;
  driver.wait = [&](const char* what, Task<> task) { return wait(comm, what, std::move(task)); };
  Step step(*strategy, replica, buckets, 1, std::move(driver));
  co_await wait(comm, "the start", strategy->start(replica));
  result_.start = std::max(result_.start, world_.now());
  result_.started[rank] = world_.now();
  tell(comm.rank(), "has the first weights");

  while (true) {
    std::optional<std::uint64_t> batch;
    co_await wait(comm, "asking for work", ask(*dealer, batch));
    if (!batch) break;
    const bool works = !strategy->rests();
    if (works) {
      result_.order[rank].push_back(*batch);
      tell(comm.rank(), fmt::format("takes batch {}", *batch));
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
    result_.time = std::max(result_.time, world_.now());
  }
  co_await wait(comm, "agreeing on the final model", strategy->finish(replica));
  if (const MixReport* report = strategy->mix_report()) result_.mixing += *report;
  if (!result_.server) result_.server = strategy->server_report();
}

// As many of the same size as there are to be buckets.
std::vector<Range> SimulatedWork::parameters() const {
  const auto count = static_cast<std::size_t>(training_.buckets);
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < count; ++i) ranges.push_back(part(training_.elements, count, i));
  return ranges;
}

double SimulatedWork::rate_of(std::uint64_t batch) const {
  return training_.settings.lr_schedule.share(
      batch / workers_, training_.batches_per_epoch / workers_, training_.batches / workers_);
}

void SimulatedWork::descend(std::vector<float>& weights, const std::vector<float>& gradients,
                            double rate) const {
  const auto lr = static_cast<float>(training_.settings.optimizer.lr * rate);
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= lr * gradients[i];
}

Time SimulatedWork::compute_time(int rank, std::uint64_t batch) const {
  const auto slow = slow_worker(training_.settings);
  const double factor = slow && slow->who == rank ? slow->factor : 1;
  Random random{training_.seed, batch, 0xc0};
  const double time = static_cast<double>(training_.compute.count()) * factor *
                      (1 + training_.jitter * random.uniform());
  return training_.faults.computing(rank, world_.now(), Time(std::llround(time)));
}

}  // namespace starling
