#include "topology/pipeline_schedule.h"

#include <gtest/gtest.h>

#include <set>

namespace starling {
namespace {

using enum Turn::Kind;

constexpr PipelineSchedule kAll[] = {PipelineSchedule::naive, PipelineSchedule::gpipe,
                                     PipelineSchedule::one_f_one_b};

TEST(TurnsOf, TakeEachMicroBatchForwardAndThenBack) {
  for (const PipelineSchedule schedule : kAll) {
    for (int stages = 1; stages <= 5; ++stages) {
      for (int m = 1; m <= 9; ++m) {
        for (int stage = 0; stage < stages; ++stage) {
          std::set<int> forwards, backwards;
          for (const Turn& turn : turns_of(schedule, stage, stages, m)) {
            if (turn.kind == forward) {
              EXPECT_TRUE(forwards.insert(turn.micro_batch).second);
            } else {
              EXPECT_TRUE(forwards.contains(turn.micro_batch));
              EXPECT_TRUE(backwards.insert(turn.micro_batch).second);
            }
          }
          EXPECT_EQ(forwards.size(), static_cast<std::size_t>(m));
          EXPECT_EQ(backwards, forwards);
        }
      }
    }
  }
}

TEST(TurnsOf, AreTheOnesOfThePapers) {
  EXPECT_EQ(turns_of(PipelineSchedule::gpipe, 0, 2, 2),
            (std::vector<Turn>{{forward, 0}, {forward, 1}, {backward, 1}, {backward, 0}}));
  EXPECT_EQ(
      turns_of(PipelineSchedule::one_f_one_b, 0, 2, 3),
      (std::vector<Turn>{
          {forward, 0}, {forward, 1}, {backward, 0}, {forward, 2}, {backward, 1}, {backward, 2}}));
  EXPECT_EQ(turns_of(PipelineSchedule::one_f_one_b, 1, 2, 2),
            (std::vector<Turn>{{forward, 0}, {backward, 0}, {forward, 1}, {backward, 1}}));
}

TEST(MostKept, IsAllForGpipeAndTheDepthFor1f1b) {
  for (int stages = 1; stages <= 4; ++stages) {
    for (int stage = 0; stage < stages; ++stage) {
      EXPECT_EQ(most_kept(turns_of(PipelineSchedule::gpipe, stage, stages, 8)), 8);
      EXPECT_EQ(most_kept(turns_of(PipelineSchedule::one_f_one_b, stage, stages, 8)),
                stages - stage);
      EXPECT_EQ(most_kept(turns_of(PipelineSchedule::naive, stage, stages, 8)), 1);
    }
  }
}

// With stages that are all alike and links that take no time.
TEST(Timetable, HasTheBubbleOfTheFormula) {
  for (int p = 1; p <= 4; ++p) {
    const std::vector<StageCost> stages(static_cast<std::size_t>(p), {1, 2, 0});
    for (int m = 1; m <= 8; ++m) {
      const double formula = static_cast<double>(p - 1) / (m + p - 1);
      EXPECT_NEAR(bubble(timetable(PipelineSchedule::gpipe, stages, m)), formula, 1e-12);
      EXPECT_NEAR(bubble(timetable(PipelineSchedule::one_f_one_b, stages, m)), formula, 1e-12);
      EXPECT_NEAR(bubble(timetable(PipelineSchedule::naive, stages, m)), 1 - 1.0 / p, 1e-12);
    }
  }
}

TEST(Timetable, WaitsForLinks) {
  const std::vector<StageCost> stages = {{1, 2, 0.5}, {1, 2, 0.5}};
  const auto table = timetable(PipelineSchedule::gpipe, stages, 1);
  EXPECT_DOUBLE_EQ(table[1][0].begin, 1.5);
  EXPECT_DOUBLE_EQ(table[0][1].begin, 1.5 + 3 + 0.5);
  EXPECT_DOUBLE_EQ(table[0][1].end, 7);
}

TEST(Recomputed, CountsWhoDoesNotGoBackAtOnce) {
  const auto count = [](PipelineSchedule schedule, int stage, int micro_batches) {
    return recomputed(turns_of(schedule, stage, 3, micro_batches));
  };
  for (int stage : {0, 1, 2}) {
    EXPECT_EQ(count(PipelineSchedule::naive, stage, 4), 0);
    EXPECT_EQ(count(PipelineSchedule::gpipe, stage, 4), 3) << "the last one turns around";
    EXPECT_EQ(count(PipelineSchedule::one_f_one_b, stage, 4), stage == 2 ? 0 : 4);
    EXPECT_EQ(count(PipelineSchedule::one_f_one_b, stage, 1), 0);
  }
}

}  // namespace
}  // namespace starling
