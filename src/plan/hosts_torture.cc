// hosts: a training of one job on simulated hosts (plan/hosted_training.h). Joining, framing and finding
// out who is lost are the real ones. A process that is started anew knocks at a job that does not wait
// for it: it may find no place, and must not harm those who are there.
#include <array>
#include <sstream>

#include "plan/hosted_training.h"
#include "plan/tortured_training.h"

namespace starling {

namespace {

using namespace std::chrono_literals;

constexpr Time kHarmless = 3s;  // a cut that is mended by then costs nobody anything
constexpr Time kLasting = 40s;

Weather draw_weather(Random& random) {
  Weather weather;
  weather.most_delay = std::array<Time, 3>{100us, 1ms, 20ms}[random.below(3)];
  weather.least_delay = weather.most_delay / 4;
  weather.short_share = std::array{0.0, 0.3, 0.9}[random.below(3)];
  weather.capacity_bytes = std::array<std::size_t, 2>{10'000, 200'000}[random.below(2)];
  return weather;
}

}  // namespace

Ordeal torture_hosts(const System& system, std::uint64_t seed, const Witness& witness) {
  Random random{seed, 0x05};
  HostedTraining hosted{draw_training(system, seed, random), draw_weather(random),
                        random.below(8) == 0};
  SimulatedTraining& training = hosted.training;
  training.compute = 100ms;
  const int ranks = simulated_ranks(training.settings);
  // Nobody here listens to being told to leave.
  const auto kinds = draw_kinds(random, {FaultKind::crash, FaultKind::failure, FaultKind::restart});
  training.faults = draw_faults(seed, ranks, expected_time(training) * 2, kinds);
  training.faults.leaves.clear();
  // Rank 0's new process listens where the old one did, and who knocks there cannot tell them apart.
  std::erase_if(training.faults.restarts, [](const auto& each) { return each.rank == 0; });
  for (Faults::Partition& each : training.faults.partitions) {
    if (random.below(3) == 0) each.until = each.from + kLasting;
  }
  training.timeout = 1min;
  training.deadline = 1h;
  std::ostringstream story;
  story << in_words(training) << (hosted.encrypted ? ", encrypted; " : "; ") << hosted.weather
        << "; " << training.faults;
  const Losses losses = losses_of(training.faults, ranks, kHarmless);
  return endure(training, story.str(), losses, witness, [&] { return simulate(hosted); });
}

}  // namespace starling
