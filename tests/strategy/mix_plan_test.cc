#include "strategy/mix_plan.h"

#include <gtest/gtest.h>

namespace starling {
namespace {

// On a ring of four the eigenvalues of (a, b, a) / (2 a + b) are (b + 2 a cos(k pi / 2)) / (2 a + b).
TEST(MixPlan, TheGapIsThatOfTheWeightsThatAreSet) {
  Settings settings;
  settings.strategy = StrategyKind::mix;
  settings.workers = 4;
  settings.mix.graph.kind = GraphSettings::Kind::closed_ring;
  EXPECT_NEAR(*graph_gap(settings), 1 - 1.0 / 3, 1e-9);
  settings.mix.merge_weights = "1, 2, 1";
  EXPECT_NEAR(*graph_gap(settings), 1 - 2.0 / 4, 1e-9);
  settings.mix.merge_weights = "1, 6, 1";
  EXPECT_NEAR(*graph_gap(settings), 1 - 6.0 / 8, 1e-9);
}

}  // namespace
}  // namespace starling
