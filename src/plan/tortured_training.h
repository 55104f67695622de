// What scenarios of whole trainings share: drawing one, and judging what came of it.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "base/random.h"
#include "plan/simulated_training.h"
#include "plan/torture.h"

namespace starling {

// A small training by that system.
SimulatedTraining draw_training(const System& system, std::uint64_t seed, Random& random);
// In words, without its faults.
std::string in_words(const SimulatedTraining& training);

// About how long it takes if nothing goes wrong.
Time expected_time(const SimulatedTraining& training);

// What may go wrong: what ends somebody, what passes, or both.
std::set<FaultKind> draw_kinds(Random& random, const std::set<FaultKind>& lethal);

// Who ends by a fault, and whether the network may have fallen apart for good.
struct Losses {
  std::set<int> gone;
  std::set<int> back;        // who is started anew, and may find no place
  Time first = Time::max();  // when the first of them went
  std::set<int> parted;      // of both sides of every split
  bool in_part = false;      // a split between some, whom others still reach

  bool any() const { return !gone.empty() || !parted.empty(); }
};
// A partition that lasts for so long loses somebody.
Losses losses_of(const Faults& faults, int ranks, Time detection);

// Lets it run, in whatever world, and judges what came of it.
Ordeal endure(SimulatedTraining& training, const std::string& story, const Losses& losses,
              const Witness& witness, const std::function<SimulatedResult()>& run);

}  // namespace starling
