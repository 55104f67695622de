#include "train/tied.h"

#include <gtest/gtest.h>

#include "sim/cluster.h"
#include "strategy/grid.h"

namespace starling {
namespace {

// A copy on two stages of two parts, of which each has a whole parameter, a slice, and one that the
// other stage has, too. Each begins with values of its own.
TEST(SharedWeights, BecomeTheFirstOnesAndNothingElseChanges) {
  Settings settings;
  settings.workers = 4;
  settings.parallel.pipeline = settings.parallel.tensor = 2;
  std::vector<Model> models(4);
  for (int rank = 0; rank < 4; ++rank) {
    Model& model = models[static_cast<std::size_t>(rank)];
    model.parameters = {{"whole", torch::full({3}, static_cast<float>(rank))},
                        {"slice", torch::full({2, 2}, static_cast<float>(10 + rank))},
                        {"tied", torch::full({5}, static_cast<float>(20 + rank))}};
    model.slices[1] = model.slices[2] = Slice{.dimension = 0, .size = 4, .ranks = 2};
    model.tied = {2, rank >= 2};
  }
  Cluster cluster(4);
  cluster.run([&](Comm& comm) {
    return share_weights(part_group(settings, comm), tied_pair(stage_group(settings, comm)),
                         models[static_cast<std::size_t>(comm.rank())]);
  });
  const auto values = [&](std::size_t parameter) {
    std::vector<float> all;
    for (const Model& model : models) {
      const torch::Tensor& tensor = model.parameters[parameter].second;
      EXPECT_TRUE(tensor.eq(tensor.flatten()[0]).all().item<bool>());
      all.push_back(tensor.flatten()[0].item<float>());
    }
    return all;
  };
  EXPECT_EQ(values(0), (std::vector<float>{0, 0, 2, 2}));  // of the first part of a stage
  EXPECT_EQ(values(1), (std::vector<float>{10, 11, 12, 13}));
  EXPECT_EQ(values(2), (std::vector<float>{20, 21, 20, 21}));  // of the first stage
}

}  // namespace
}  // namespace starling
