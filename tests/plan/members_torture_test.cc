// Elastic trainings of every named system, a few seeds each; `starling torture --scenarios members` runs
// any number.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "plan/torture.h"
#include "tests/seeds.h"

namespace starling {
namespace {

void endure_seeds(const System& system) {
  each_seed_twice_alike(6, [&](std::uint64_t seed) {
    const Ordeal ordeal = torture_members(system, seed, {});
    EXPECT_TRUE(ordeal.wrongs.empty()) << fmt::format("{}", fmt::join(ordeal.wrongs, "\n"));
    return fmt::format("{}\ndigest {:016x}", ordeal.story, ordeal.digest);
  });
}

class ElasticSystems : public ::testing::TestWithParam<std::string> {};

TEST_P(ElasticSystems, ComesToItsEndWithEveryBatch) { endure_seeds(find_system(GetParam())); }

// Nobody's weights but the servers' have what others have pushed.
TEST(ElasticServers, KeepAllThatWasAcknowledgedIfTheyHaveCopies) {
  System system = find_system("parameter-server");
  system.toml = "[settings]\nstrategy = 'server'\nservers = 3\nreplicas = 2\ngate = 'async'\n";
  endure_seeds(system);
}

std::vector<std::string> elastic_systems() {
  std::vector<std::string> names;
  for (const System& system : named_systems()) {
    if (find_scenario("members").takes(system)) names.push_back(system.name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Seeds, ElasticSystems, ::testing::ValuesIn(elastic_systems()),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace starling
