// Which of several learning rates is the best.
#include "measure/tuning.h"

#include <gtest/gtest.h>

namespace starling {
namespace {

class TuningTest : public testing::Test {
 protected:
  TuningTest() {
    options_.settings_over = [](Settings settings) { return settings; };  // to 97 %
  }
  static RunSummary run(double accuracy, std::uint64_t samples) {
    RunSummary summary;
    summary.accuracy = accuracy;
    summary.samples = samples;
    summary.steps = samples / 10;
    return summary;
  }
  std::size_t best(const std::vector<Tried>& tried) const {
    return best_of(Subject(options_), tried);
  }

  MeasureOptions options_;
};

TEST_F(TuningTest, PrefersTheFewestSamplesToTheGoal) {
  EXPECT_EQ(best({{0.1, {run(0.97, 300)}}, {0.2, {run(0.98, 200)}}, {0.4, {run(0.99, 250)}}}), 1u);
  EXPECT_EQ(best({{0.1, {run(0.97, 200)}}, {0.2, {run(0.98, 200)}}}), 0u) << "the first of equals";
}

TEST_F(TuningTest, PrefersToGetThereFromMoreSeeds) {
  EXPECT_EQ(best({{0.1, {run(0.97, 100), run(0.5, 900)}}, {0.2, {run(0.97, 300), run(0.97, 300)}}}),
            1u);
}

TEST_F(TuningTest, TakesTheBestModelWhereNoneGetsThere) {
  EXPECT_EQ(best({{0.1, {run(0.5, 100)}}, {0.2, {run(0.6, 900)}}, {0.4, {RunSummary()}}}), 1u);
}

TEST_F(TuningTest, IsToldRateByRate) {
  EXPECT_EQ(describe(Subject(options_), {{0.1, {run(0.97, 12'000)}}, {0.2, {run(0.5, 900)}}}),
            "0.1: 1,200, 0.2: -");
}

}  // namespace
}  // namespace starling
