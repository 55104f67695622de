// Torture: trainings under faults that a seed draws, and what must be true of them whatever happens.
//
// A scenario is data: a workload, faults, and checks of what came of both. First of safety (nobody
// hangs, who is lost is named, models that must be alike are, ...), then, where all that went wrong has
// passed, of progress. Each has a file of its own, and a row in the table.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "strategy/systems.h"

namespace starling {

// What came of a seed.
struct Ordeal {
  std::string story;                     // workload and faults
  std::vector<std::string> wrongs = {};  // what must not be
  std::uint64_t digest = 0;              // of all that happened
};

// Is told of every event.
using Witness = std::function<void(const std::string& event)>;

struct Scenario {
  const char* name;
  const char* summary;
  bool (*takes)(const System& system);
  Ordeal (*run)(const System& system, std::uint64_t seed, const Witness& witness);
};
std::span<const Scenario> scenarios();
// The one of that name; throws Error naming those there are.
const Scenario& find_scenario(std::string_view name);

// Runs the seed twice: two that do not end alike are wrong, too.
Ordeal torture(const Scenario& scenario, const System& system, std::uint64_t seed,
               const Witness& witness = {});

// One function a scenario, each in the file of its name.
Ordeal torture_cluster(const System& system, std::uint64_t seed, const Witness& witness);
Ordeal torture_hosts(const System& system, std::uint64_t seed, const Witness& witness);
Ordeal torture_members(const System& system, std::uint64_t seed, const Witness& witness);

}  // namespace starling
