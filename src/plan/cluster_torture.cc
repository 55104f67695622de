// cluster: a training of one generation on a modelled network (sim/cluster.h). Who is lost does not come
// back: the others go on without it if they can, and else end with a word on whose account. Nobody is told
// to leave: who does so before it has finished counts as lost.
#include <array>
#include <sstream>

#include "plan/tortured_training.h"

namespace starling {

using namespace std::chrono_literals;

Ordeal torture_cluster(const System& system, std::uint64_t seed, const Witness& witness) {
  Random random{seed, 0xc1};
  SimulatedTraining training = draw_training(system, seed, random);
  const int ranks = simulated_ranks(training.settings);
  const auto kinds = draw_kinds(random, {FaultKind::crash, FaultKind::failure});
  training.faults = draw_faults(seed, ranks, expected_time(training) * 2, kinds);
  training.timeout = 1min;
  training.deadline = 1h;
  training.faults.detection = std::array<Time, 2>{30ms, 10s}[random.below(2)];
  std::ostringstream story;
  story << in_words(training) << "; " << training.faults;
  const Losses losses = losses_of(training.faults, ranks, training.faults.detection);
  return endure(training, story.str(), losses, witness, [&] { return simulate(training); });
}

}  // namespace starling
