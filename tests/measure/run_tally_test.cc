#include "measure/run_tally.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace starling {
namespace {

using nlohmann::json;

Settings two_workers() {
  Settings settings;
  settings.workers = 2;
  settings.strategy = StrategyKind::allreduce;
  return settings;
}

json network(int payload, int wire) {
  const json counts = {{"gradients", {{"payload", payload}, {"wire", wire}}},
                       {"control", {{"payload", 1}, {"wire", 2}}}};
  return {{"event", "network"}, {"sent", counts}, {"received", counts}};
}

TEST(RunTally, GoesByWhatAProgramHasSet) {
  RunTally tally(two_workers());
  Settings settings = two_workers();
  settings.strategy = StrategyKind::pairwise;
  tally.set(settings);
  EXPECT_EQ(tally.summary().strategy, "pairwise");
}

TEST(RunTally, TellsOfARunThatWasCutOffWhatItsWorkersHadTold) {
  RunTally tally(two_workers());
  tally.take(0, network(10, 20));
  tally.take(1, network(30, 40));
  tally.take(1, network(50, 60));
  tally.take(2, network(7, 8));  // a server
  tally.take(0, {{"event", "progress"}, {"step", 12}, {"epoch", 0.5}, {"training_time", 3.5}});
  tally.take(0, {{"event", "stopped"}, {"step", 14}});
  const RunSummary summary = tally.summary();
  EXPECT_FALSE(tally.has_result());
  EXPECT_EQ(summary.steps, 14u);
  EXPECT_EQ(summary.epochs, 0.5);
  EXPECT_EQ(summary.train_seconds, 3.5);
  ASSERT_EQ(summary.ranks.size(), 3u);
  EXPECT_EQ(summary.ranks[1].payload_bytes_sent, 51u);
  EXPECT_EQ(summary.ranks[1].wire_bytes_received, 62u);
  EXPECT_EQ(summary.ranks[2].role, RankSummary::Role::server);
  ASSERT_TRUE(tally.stop());
  EXPECT_EQ(tally.stop()->rank, 0);
  EXPECT_EQ(tally.stop()->error, "");
}

// Workers that wait for nobody have moved on by the time that all have stopped.
TEST(RunTally, KnowsAfterWhichStepTheGoalWasFoundWhateverTheFinalModelHas) {
  Settings settings = two_workers();
  settings.train.until = "accuracy=0.85";
  RunTally tally(settings);
  const auto evaluated = [&](int step, double accuracy) {
    tally.take(0, {{"event", "evaluation"}, {"step", step}, {"accuracy", accuracy}});
    return tally.summary().goal_step;
  };
  EXPECT_EQ(evaluated(10, 0.84), std::nullopt);
  EXPECT_EQ(evaluated(20, 0.86), 20u);
  EXPECT_EQ(evaluated(30, 0.87), 20u);
  tally.take(0, {{"event", "result"}, {"accuracy", 0.73}, {"steps", 30}});
  EXPECT_EQ(tally.summary().accuracy, 0.73);
  EXPECT_EQ(tally.summary().goal_step, 20u);

  RunTally text(settings);
  settings.train.until = "loss=2.2";
  text.set(settings);
  text.take(0, {{"event", "evaluation"}, {"step", 10}, {"accuracy", 0.9}, {"test_loss", nullptr}});
  EXPECT_EQ(text.summary().goal_step, std::nullopt) << "it is no number";
  text.take(0, {{"event", "evaluation"}, {"step", 20}, {"accuracy", 0.1}, {"test_loss", 2.2}});
  EXPECT_EQ(text.summary().goal_step, 20u);
}

TEST(RunTally, PrefersWhatTheLeadTellsAtTheEnd) {
  RunTally tally(two_workers());
  tally.take(0, network(10, 20));
  tally.take(2, network(7, 8));
  tally.take(0, {{"event", "result"},
                 {"accuracy", 0.9},
                 {"worker_rank", {0, 1}},
                 {"wire_bytes_sent", {100, 200}}});
  tally.take(2, {{"event", "served"}, {"wire_bytes_sent", 300}});
  const RunSummary summary = tally.summary();
  EXPECT_TRUE(tally.has_result());
  ASSERT_EQ(summary.ranks.size(), 3u);
  EXPECT_EQ(summary.sum(&RankSummary::wire_bytes_sent), 600);
}

// A program may be anybody's.
TEST(RunTally, PassesOverWhatIsNotAsItShouldBe) {
  RunTally tally(two_workers());
  tally.take(0, {{"event", "network"}, {"sent", 5}, {"received", {{"gradients", "much"}}}});
  tally.take(1, {{"event", "progress"}, {"step", "far"}, {"time", nullptr}});
  tally.take(1, {{"event", "worked"}, {"worker_steps", "many"}, {"worker_rank", 77}});
  tally.take(1, {{"event", "stopped"}, {"error", {1, 2}}});
  const RunSummary summary = tally.summary();
  EXPECT_EQ(summary.steps, std::nullopt);
  ASSERT_EQ(summary.ranks.size(), 2u);
  EXPECT_EQ(summary.ranks[0].wire_bytes_sent, 0u);
  EXPECT_EQ(summary.ranks[1].rank, 1);
  EXPECT_EQ(summary.ranks[1].steps, std::nullopt);
}

}  // namespace
}  // namespace starling
