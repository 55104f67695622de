// What is said of a training at its end.
#include "measure/training_run.h"

#include <gtest/gtest.h>

namespace starling {
namespace {

// More epochs would not help who has stopped early.
TEST(DescribeMissed, SaysWhatToDoWhereTheGoalWasNeverFoundAndWhereItWasLostAgain) {
  RunSummary summary;
  summary.accuracy = 0.732;
  summary.loss = 2.3;
  EXPECT_EQ(describe_missed({Target::Measure::accuracy, 0.85}, summary),
            "the final model has 73.20 %, and --until wants 85 %; give it more --epochs");
  EXPECT_EQ(describe_missed({Target::Measure::loss, 2.2}, summary),
            "the final model has a loss of 2.3000, and --until wants 2.2; give it more --epochs");
  summary.goal_step = 40;
  EXPECT_EQ(describe_missed({Target::Measure::accuracy, 0.85}, summary),
            "the final model has 73.20 %, and --until wants 85 %, which an evaluation had found "
            "after step 40; ask for a little more");
}

}  // namespace
}  // namespace starling
