#include "topology/cut.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "tests/error_of.h"

namespace starling {
namespace {

std::vector<LayerCost> layers_of(const std::vector<double>& seconds) {
  std::vector<LayerCost> layers;
  for (double each : seconds) layers.push_back({"", each / 3, each * 2 / 3, 4, 0});
  return layers;
}

double slowest(const std::vector<LayerCost>& layers, const std::vector<Range>& cut,
               const StageLink& link) {
  double most = 0;
  for (const Range& stage : cut) most = std::max(most, stage_seconds(layers, stage, link));
  return most;
}

// All cuts there are.
double best_of_all(const std::vector<LayerCost>& layers, std::size_t stages, const StageLink& link,
                   std::vector<Range> cut = {}) {
  const std::size_t begin = cut.empty() ? 0 : cut.back().end;
  double best = 1e300;
  if (stages == 1) {
    cut.push_back({begin, layers.size()});
    return slowest(layers, cut, link);
  }
  for (std::size_t end = begin + 1; end + stages - 1 <= layers.size(); ++end) {
    std::vector<Range> longer = cut;
    longer.push_back({begin, end});
    best = std::min(best, best_of_all(layers, stages - 1, link, longer));
  }
  return best;
}

TEST(CutLayers, BalancesWhatStagesTake) {
  const auto layers = layers_of({1, 1, 1, 3, 1, 1});
  EXPECT_EQ(cut_layers(layers, 2, {1e9, 0}), (std::vector<Range>{{0, 3}, {3, 6}}));
  EXPECT_EQ(cut_layers(layers, 1, {1e9, 0}), (std::vector<Range>{{0, 6}}));
  EXPECT_EQ(cut_layers(layers, 3, {1e9, 0}), (std::vector<Range>{{0, 3}, {3, 4}, {4, 6}}));
}

TEST(CutLayers, AvoidsLongActivationsOnASlowLink) {
  auto layers = layers_of({1, 1, 1, 1});
  layers[1].output_bytes = 1000;  // in the middle, where times alone would cut
  EXPECT_EQ(cut_layers(layers, 2, {1e9, 0})[0].end, 2u);
  EXPECT_EQ(cut_layers(layers, 2, {100, 0})[0].end, 1u);
}

TEST(CutLayers, IsTheBestOfAllCuts) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random{seed};
    std::vector<LayerCost> layers(1 + seed % 9);
    for (LayerCost& layer : layers) {
      layer.forward_seconds = random.uniform();
      layer.backward_seconds = random.uniform();
      layer.parameter_bytes = 4;
      layer.output_bytes = static_cast<std::uint64_t>(random.uniform() * 1000);
    }
    const StageLink link{500 + 4000 * random.uniform(), random.uniform() / 10};
    for (std::size_t stages = 1; stages <= layers.size(); ++stages) {
      const auto cut = cut_layers(layers, static_cast<int>(stages), link);
      ASSERT_EQ(cut.size(), stages);
      std::size_t next = 0;
      for (const Range& stage : cut) {
        EXPECT_EQ(stage.begin, next);
        EXPECT_GT(stage.size(), 0u);
        next = stage.end;
      }
      EXPECT_EQ(next, layers.size());
      EXPECT_DOUBLE_EQ(slowest(layers, cut, link), best_of_all(layers, stages, link))
          << "seed " << seed << ", " << stages << " stages";
    }
  }
}

TEST(CutLayers, LeavesNoStageWithoutParameters) {
  auto layers = layers_of({1, 5, 1, 1});
  layers[1].parameter_bytes = 0;
  EXPECT_EQ(cut_layers(layers, 2, {}), (std::vector<Range>{{0, 2}, {2, 4}}));
  EXPECT_EQ(cut_layers(layers, 3, {}), (std::vector<Range>{{0, 1}, {1, 3}, {3, 4}}));
  EXPECT_EQ(error_of([&] { cut_layers(layers, 4, {}); }),
            "4 layers cannot be cut into 4 stages that have parameters each; use fewer stages");
}

TEST(CutLayers, RefusesMoreStagesThanLayers) {
  EXPECT_EQ(error_of([] {
              cut_layers(layers_of({1, 1}), 3, {});
            }),
            "2 layers cannot be cut into 3 stages; use --pipeline 2 at the most, or a model with "
            "more layers");
}

TEST(CutAsWritten, TakesRangesAndSingleLayers) {
  EXPECT_EQ(cut_as_written("0-3,4-7", 8), (std::vector<Range>{{0, 4}, {4, 8}}));
  EXPECT_EQ(cut_as_written("0,1-2,3", 4), (std::vector<Range>{{0, 1}, {1, 3}, {3, 4}}));
}

TEST(CutAsWritten, RefusesWhatIsNotAllLayersInOrder) {
  const std::string remedy = "; write all layers from 0 to 3 in order, like 0-1,2-3";
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {"0-1,3", "layer 2 comes next"},
           {"0-2,2-3", "layer 3 comes next"},
           {"1-3", "layer 0 comes next"},
           {"0-2", "layer 3 is in no stage"},
           {"0-4", "there is no layer 4"},
           {"0-1,2-99999999999999999999", "'2-99999999999999999999' is no range"},
           {"0-1,", "layer 2 is in no stage"},
           {"0-1,,2-3", "'' is no range"},
           {"a", "'a' is no range"},
           {"0-", "'0-' is no range"},
           {"1-0", "layer 0 comes next"},
           {"", "layer 0 is in no stage"}}) {
    EXPECT_EQ(error_of([&, written = text] { cut_as_written(written, 4); }),
              "stages = '" + text + "': " + why + remedy);
  }
}

}  // namespace
}  // namespace starling
