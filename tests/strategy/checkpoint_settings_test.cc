#include "strategy/checkpoint_settings.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "strategy/settings.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

std::optional<CheckpointInterval> every(const std::string& text) {
  return interval_of({.every = text});
}

TEST(CheckpointInterval, IsInStepsOrInTime) {
  EXPECT_FALSE(every(""));
  EXPECT_EQ(every("200steps"), (CheckpointInterval{200, 0ns}));
  EXPECT_EQ(every("1 step"), (CheckpointInterval{1, 0ns}));
  EXPECT_EQ(every("30s"), (CheckpointInterval{0, 30s}));
  EXPECT_EQ(every("10min"), (CheckpointInterval{0, 10min}));
  for (const char* wrong : {"0steps", "0s", "-3s", "steps", "30", "3 apples", "1.5steps"}) {
    EXPECT_THROW(every(wrong), Error) << wrong;
  }
}

TEST(CheckpointInterval, IsCheckedWithTheOtherSettings) {
  Settings settings;
  settings.checkpoint.every = "often";
  EXPECT_THROW(check_settings(settings), Error);
  settings.checkpoint.every = "30s";
  EXPECT_NO_THROW(check_settings(settings));
  settings.strategy = StrategyKind::ring_leader;
  EXPECT_THROW(check_settings(settings), Error);
  settings.checkpoint.every = "30steps";
  EXPECT_NO_THROW(check_settings(settings));
  settings.checkpoint.every = "";
  settings.checkpoint.keep = 5;
  EXPECT_THROW(check_settings(settings), Error) << "nobody reads it";
}

TEST(DifferentSettings, AreNamed) {
  Settings one, other;
  EXPECT_TRUE(different_settings(one, other).empty());
  other.optimizer.lr = 0.3;
  other.train.model = "mlp";
  other.checkpoint.every = "30s";
  EXPECT_EQ(different_settings(one, other),
            (std::vector<std::string>{"checkpoint_every", "lr", "model"}));
}

}  // namespace
}  // namespace starling
