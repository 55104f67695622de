// That torture sees what is wrong: results that are doctored, one at a time. And a few hundred seeds.
#include "plan/torture.h"

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include "base/error.h"
#include "plan/tortured_training.h"
#include "tests/seeds.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

SimulatedTraining some_training(const char* system) {
  Random random{1};
  SimulatedTraining training = draw_training(find_system(system), 1, random);
  training.settings.workers = 3;
  training.batches = training.batches_per_epoch = 12;
  return training;
}

// What torture says of a training whose result somebody has changed.
std::string wrongs_of(const char* system, const std::function<void(SimulatedResult&)>& doctor,
                      Losses losses = {}) {
  SimulatedTraining training = some_training(system);
  const Ordeal ordeal = endure(training, "a story", losses, {}, [&] {
    SimulatedResult result = simulate(training);
    doctor(result);
    return result;
  });
  std::string all;
  for (const std::string& each : ordeal.wrongs) all += each + "\n";
  return all;
}

TEST(Torture, FindsNothingWhereNothingIs) {
  for (const char* system : {"horovod", "gosgd", "easgd", "parameter-server", "sgp"}) {
    EXPECT_EQ(wrongs_of(system, [](SimulatedResult&) {}), "") << system;
  }
}

TEST(Torture, SeesModelsThatDiffer) {
  EXPECT_EQ(wrongs_of("horovod", [](SimulatedResult& result) { result.weights[2][0] += 1; }),
            "ranks 0 and 2 ended with different models\n");
}

TEST(Torture, SeesBatchesThatWereLeftOutOrSeenTwice) {
  EXPECT_EQ(wrongs_of("horovod", [](SimulatedResult& result) { result.order[1].pop_back(); }),
            "11 of 12 batches were worked on\n");
  EXPECT_EQ(wrongs_of("horovod", [](SimulatedResult& result) { result.order[1].push_back(3); }),
            "batch 3 was worked on 2 times\n");
}

TEST(Torture, SeesSharesThatGetLost) {
  EXPECT_NE(wrongs_of("gosgd", [](SimulatedResult& result) { result.mixing.final_share -= 0.1; })
                .find("the shares of all workers"),
            std::string::npos);
}

TEST(Torture, SeesWhoEndsWithoutReason) {
  const auto ends = [](SimulatedResult& result) {
    result.errors[1] = std::make_exception_ptr(Error("no mood"));
    result.finished[1].reset();
  };
  EXPECT_EQ(wrongs_of("horovod", ends), "rank 1 ends though nobody is lost: no mood\n");
  EXPECT_EQ(wrongs_of("gosgd", ends, Losses{.gone = {2}, .back = {}, .first = 1h, .parted = {}}),
            "rank 1 ends though it could do without: no mood\n");
  EXPECT_EQ(wrongs_of("horovod", [](SimulatedResult& result) { result.finished[1].reset(); }),
            "rank 1 has not finished, and did not say why\n");
}

TEST(Torture, SeesWhoBlamesTheWrongOne) {
  const Losses losses{.gone = {2}, .back = {}, .first = 1ms, .parted = {}};
  for (const int named : {0, 2}) {
    const std::string wrongs = wrongs_of(
        "horovod",
        [named](SimulatedResult& result) {
          result.errors[1] = std::make_exception_ptr(PeerLost(named, "somebody was lost"));
          result.finished[1].reset();
        },
        losses);
    EXPECT_EQ(wrongs, named == 2 ? "" : "rank 1 does not name who was lost: somebody was lost\n");
  }
}

TEST(Torture, SeesWhoHangs) {
  SimulatedTraining training = some_training("horovod");
  training.deadline = 5ms;
  const Ordeal ordeal = endure(training, "a story", {}, {}, [&] { return simulate(training); });
  EXPECT_EQ(ordeal.wrongs, std::vector<std::string>{"somebody was still at it at the deadline"});
}

TEST(Torture, SeesASeedThatGoesAnotherWay) {
  static int runs;
  runs = 0;
  const Scenario scenario{"moody", "never the same", [](const System&) { return true; },
                          [](const System&, std::uint64_t, const Witness&) {
                            return Ordeal{"a story", {}, static_cast<std::uint64_t>(++runs)};
                          }};
  EXPECT_EQ(torture(scenario, find_system("gosgd"), 1).wrongs,
            std::vector<std::string>{"run again, the same seed went another way"});
}

TEST(Torture, TellsAWitnessWhatWasDrawnAndWhatHappened) {
  std::vector<std::string> events;
  const Ordeal ordeal = torture(find_scenario("cluster"), find_system("gosgd"), 7,
                                [&](const std::string& event) { events.push_back(event); });
  ASSERT_GT(events.size(), 3u);
  EXPECT_EQ(events[0], ordeal.story);
  EXPECT_NE(ordeal.story.find("seed 7"), std::string::npos);
  EXPECT_THROW(find_scenario("bliss"), Error);
}

class TortureSeeds : public testing::TestWithParam<const char*> {};

TEST_P(TortureSeeds, BreakNothing) {
  const Scenario& scenario = find_scenario(GetParam());
  std::vector<System> systems;
  for (const System& each : named_systems()) {
    if (scenario.takes(each)) systems.push_back(each);
  }
  each_seed_twice_alike(100, [&](std::uint64_t seed) {
    const System& system = systems[seed % systems.size()];
    const Ordeal ordeal = scenario.run(system, seed, {});
    for (const std::string& wrong : ordeal.wrongs) ADD_FAILURE() << system.name << ": " << wrong;
    return ordeal.story + "; digest " + std::to_string(ordeal.digest);
  });
}

INSTANTIATE_TEST_SUITE_P(Of, TortureSeeds, testing::Values("cluster", "hosts"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace starling
