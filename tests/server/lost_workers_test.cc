// What becomes of a push whose worker is lost: it counts as it was pushed, or it does not count.
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/server/scripted_workers.h"

namespace starling {
namespace {

using namespace std::chrono_literals;
using Gate = GateSettings::Kind;
using Kind = Act::Kind;

TEST(LostPush, DoesNotLendItsPlaceInAQuorumToAnotherWorkersGradient) {
  ServerOptions options = options_for(3, Gate::quorum);
  options.gate.quorum = 2;
  ScriptedWorkers scene(options, {{{1s, Kind::push, 100}, {9s, Kind::nothing}},
                                  {{3s, Kind::push_pull, 1}},
                                  {{4s, Kind::push_pull, 3}}});
  scene.cluster.crash(0, 2s);
  scene.run();
  EXPECT_EQ(scene.weights[1][0], 8.0f);
  EXPECT_EQ(scene.weights[2][0], 8.0f);
  EXPECT_EQ(scene.reports[1].applied(), 2u);
  EXPECT_EQ(scene.reports[1].dropped, 1u);
}

TEST(LostPush, DoesNotComeBackAsSomebodyElsesWeights) {
  ServerOptions options = options_for(3, Gate::quorum);
  options.gate.quorum = 2;
  ScriptedWorkers scene(options, {{{1s, Kind::push, 100}, {9s, Kind::nothing}},
                                  {{3s, Kind::pull}, {4s, Kind::push_pull, 1}},
                                  {{3s, Kind::pull}, {5s, Kind::push_pull, 3}}});
  scene.cluster.crash(0, 2s);
  scene.run();
  EXPECT_EQ(scene.weights[1][0], 8.0f);
}

TEST(LostPush, ThatAValueBoundHeldBackIsDropped) {
  ServerOptions options = options_for(3, Gate::value);
  options.gate.value_bound = 0.5;
  ScriptedWorkers scene(options, {{{1s, Kind::push, 100}, {9s, Kind::nothing}},
                                  {{3s, Kind::push_pull, 1}},
                                  {{4s, Kind::push_pull, 3}}});
  scene.cluster.crash(0, 2s);
  scene.run();
  EXPECT_EQ(scene.weights[1][0], 6.0f);
  EXPECT_EQ(scene.weights[2][0], 6.0f);
}

// It said that it would push no more, and then was lost: there is nothing that it was needed for.
TEST(LostPush, OfAWorkerThatWasDoneCounts) {
  ServerOptions options = options_for(3, Gate::quorum);
  options.gate.quorum = 2;
  ScriptedWorkers scene(
      options, {{{1s, Kind::push, 100}}, {{3s, Kind::push_pull, 1}}, {{4s, Kind::push_pull, 3}}});
  scene.cluster.crash(0, 2s);
  scene.run();
  EXPECT_EQ(scene.weights[1][0], 10 - (100 + 1) / 2.0f);
  EXPECT_EQ(scene.reports[1].applied(), 2u);
  EXPECT_EQ(scene.reports[1].dropped, 1u) << "the third one's, which came too late";
}

TEST(LostPush, CountsIfItWasAppliedBefore) {
  ScriptedWorkers scene(options_for(2, Gate::async),
                        {{{1s, Kind::push, 4}, {9s, Kind::nothing}}, {{3s, Kind::push_pull, 1}}});
  scene.cluster.crash(0, 2s);
  scene.run();
  EXPECT_EQ(scene.weights[1][0], 5.0f);
  EXPECT_EQ(scene.reports[1].dropped, 0u);
}

TEST(LostWorker, IsNoneOfTheQuorumEvenIfItNeverSaidHello) {
  ServerOptions options = options_for(3, Gate::quorum);
  options.gate.quorum = 3;
  ScriptedWorkers scene(options, {{{3s, Kind::push_pull, 1}}, {{4s, Kind::push_pull, 3}}, {}});
  scene.hello_at = 2s;
  scene.cluster.crash(2, 1s);
  scene.run();
  EXPECT_EQ(scene.weights[0][0], 8.0f);
  EXPECT_EQ(scene.weights[1][0], 8.0f);
}

TEST(LostWorker, EndsTheRunIfItOwesTheFirstWeights) {
  ScriptedWorkers scene(options_for(3, Gate::async), {{}, {{1s, Kind::push_pull, 1}}, {}},
                        {{0, {0, 1}}, {0, {1, 2}}, {1, {2, 3}}});
  scene.hello_at = 1s;
  scene.cluster.crash(0, 500ms);
  scene.cluster.crash(1, 5s);  // else they would wait for what will never come
  scene.cluster.crash(2, 5s);
  const std::vector<std::exception_ptr> errors = scene.try_run();
  for (std::size_t server : {3u, 4u}) {
    ASSERT_TRUE(errors[server]);
    try {
      std::rethrow_exception(errors[server]);
    } catch (const PeerLost& lost) {
      EXPECT_EQ(lost.rank(), 0);
    }
  }
}

}  // namespace
}  // namespace starling
