// Many seeds of torture (plan/torture.h), by processes side by side: one that a seed brings down costs
// that seed only.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "plan/torture.h"

namespace starling {

struct TortureRun {
  std::vector<std::string> scenarios;  // none: all
  std::vector<std::string> systems;    // none: all that the scenarios take
  std::uint64_t first = 0;
  std::uint64_t seeds = 1;
  int jobs = 1;
  std::size_t most_failures = 10;  // then it is enough
};

// A seed is for one scenario and one system: they take turns.
struct Trial {
  const Scenario* scenario;
  System system;
};
std::vector<Trial> trials_of(const TortureRun& run);

struct TortureFailure {
  std::string scenario, system;
  std::uint64_t seed = 0;
  std::string story;
  std::vector<std::string> wrongs;
};
// What to type to see it again.
std::string replay_command(const TortureFailure& failure);

struct TortureResult {
  std::uint64_t done = 0;  // seeds
  std::vector<TortureFailure> failures;
};

// Tells after each moment how far it is, and of each failure when it is found.
TortureResult run_torture(const TortureRun& run,
                          const std::function<void(std::uint64_t done)>& on_progress = {},
                          const std::function<void(const TortureFailure&)>& on_failure = {});

}  // namespace starling
