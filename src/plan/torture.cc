#include "plan/torture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/names.h"

namespace starling {

namespace {

// Where each worker has the whole model; simulated workers have.
bool has_whole_models(const System& system) { return system.parallelism != "model"; }

constexpr std::array kScenarios = {
    Scenario{"cluster", "a training of one generation on a modelled network", has_whole_models,
             torture_cluster},
    Scenario{"hosts", "the same through joining, framing and failure detection, byte by byte",
             has_whole_models, torture_hosts},
    Scenario{"members", "an elastic one, whose workers and servers come and go", has_whole_models,
             torture_members},
};

}  // namespace

std::span<const Scenario> scenarios() { return kScenarios; }

const Scenario& find_scenario(std::string_view name) {
  const auto found = std::ranges::find(kScenarios, name, &Scenario::name);
  if (found != kScenarios.end()) return *found;
  std::vector<std::string> names;
  for (const Scenario& each : kScenarios) names.emplace_back(each.name);
  throw Error(fmt::format("there is no scenario '{}'", name), "use " + listed(names, " or "));
}

Ordeal torture(const Scenario& scenario, const System& system, std::uint64_t seed,
               const Witness& witness) {
  Ordeal ordeal = scenario.run(system, seed, witness);
  const Ordeal again = scenario.run(system, seed, {});
  if (again.digest != ordeal.digest || again.story != ordeal.story) {
    ordeal.wrongs.push_back("run again, the same seed went another way");
  }
  return ordeal;
}

}  // namespace starling
