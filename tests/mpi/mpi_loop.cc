// A training loop of its own without any framework, over MPI, by a named system:
//
//   STARLING_TRANSPORT=mpi mpirun -n 4 mpi_loop SYSTEM
//
// Each worker's loss is half the squared distance to a goal of its own, its rank. All must end with the
// same model, between the goals. The last processes are servers, where the system has some.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <vector>

#include "base/error.h"
#include "job/launched.h"
#include "job/worker.h"
#include "server/server.h"
#include "strategy/grid.h"
#include "strategy/server_plan.h"
#include "strategy/systems.h"

namespace starling {
namespace {

constexpr std::size_t kParameters = 3, kLength = 70'001;  // of each
constexpr int kSteps = 40;
constexpr float kRate = 0.1f;

void serve(const Job& job, const Settings& settings) {
  const auto session = join_alike(job, settings);
  ServerOptions options = server_options(settings);
  options.timeout = job.timeout;
  Server server(serving_group(settings, session->comm()), options);
  session->loop().run(server.serve());
}

void work(const Job& job, const Settings& settings) {
  std::vector<float> weights(kParameters * kLength), gradients(weights);
  Worker::Layout layout{.replica = {weights, gradients}, .parameters = {}, .names = {}};
  for (std::size_t i = 0; i < kParameters; ++i) {
    layout.parameters.push_back({i * kLength, (i + 1) * kLength});
    layout.names.push_back(fmt::format("parameter {}", i));
  }
  Worker worker(join_alike(job, settings), settings, layout, {});
  const auto goal = static_cast<float>(worker.rank());
  for (int step = 0; step < kSteps; ++step) {
    for (std::size_t i = 0; i < weights.size(); ++i) gradients[i] += weights[i] - goal;
    for (std::size_t i = kParameters; i-- > 0;) worker.gradient_ready(i);
    worker.step([&] {
      for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= kRate * gradients[i];
    });
  }
  worker.finish();
  const auto own = static_cast<double>(weights.back());
  const double mean = worker.mean(own);
  if (std::abs(mean - own) > 1e-5 || own <= 0 || own >= worker.size() - 1) {
    throw Error(fmt::format("worker {} ends at {}, and all at {}", worker.rank(), own, mean));
  }
  if (worker.rank() == 0) fmt::print("{} workers end at {:.3f}\n", worker.size(), own);
}

}  // namespace
}  // namespace starling

int main(int, char** argv) {
  using namespace starling;
  try {
    const Job job = job_from_environment();
    Settings settings;
    read_settings(find_system(argv[1]).toml, "the system", settings);
    settings.workers = job.size - server_processes(settings);
    settings.optimizer.lr = kRate;
    check_settings(settings);
    job.rank < settings.workers ? work(job, settings) : serve(job, settings);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
