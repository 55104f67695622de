#include "measure/pace.h"

#include <algorithm>

#include "plan/simulated_training.h"

namespace starling {

Pace simulated_pace(const Settings& settings) {
  SimulatedTraining training;
  training.settings = settings;
  training.network.standard = {kBitsPerSecond / 8, kLatency};
  training.compute = kCompute;
  training.elements = kElements;
  training.noise = kNoise;
  training.batches = kStepsPerWorker * static_cast<std::uint64_t>(settings.workers);
  training.batches_per_epoch = training.batches;
  const SimulatedResult result = simulate(training);
  for (const std::exception_ptr& error : result.errors) {
    if (error) std::rethrow_exception(error);
  }

  const std::uint64_t done = result.all_batches();
  // The model is one block, so that a dropped gradient is a dropped batch.
  const std::uint64_t dropped = result.server ? result.server->dropped : 0;
  const double used = static_cast<double>(done - dropped) / static_cast<double>(done);
  Pace pace;
  pace.batches_per_second = result.batches_per_second() * used;
  pace.skipped = training.batches > done ? training.batches - done : 0;
  if (const auto& server = result.server) {
    pace.dropped = server->dropped;
    pace.staleness_mean = server->staleness.mean();
    pace.staleness_max = server->staleness.max;
  } else if (result.mixing.models() > 0) {
    pace.staleness_mean = result.mixing.staleness.mean();
    pace.staleness_max = result.mixing.staleness.max;
  }
  if (const auto slow = slow_worker(settings)) {
    pace.behind =
        std::ranges::max(result.batches) - result.batches[static_cast<std::size_t>(slow->who)];
  }
  return pace;
}

}  // namespace starling
