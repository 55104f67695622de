// Whole networks that ranks share, beside one process that has them: the same loss and the same
// weights after several steps, joined in one place.
#include "parallel/split_kit.h"
#include "parallel/whole.h"
#include "tests/error_of.h"
#include "tests/parallel/sharing.h"
#include "train/blueprint.h"
#include "train/loss.h"

namespace starling {
namespace {

using torch::Tensor;

constexpr int kSplitSteps = 4;

struct Trained {
  std::vector<double> losses;
  std::map<std::string, Tensor> weights, buffers;
};

Blueprint network(const std::string& name) {
  TrainSettings settings;
  settings.model = name.starts_with("resnet") ? "resnet" : name;
  using Norm = NetworkSettings::Norm;
  settings.network.norm = name == "resnet, batch" ? Norm::batch : Norm::group;
  settings.network.layers = 2;
  settings.network.width = 24;
  settings.network.heads = 6;
  settings.network.context = 7;
  settings.network.depth = 2;
  settings.network.channels = 12;
  return *find_blueprint(settings, name == "char-gpt" ? 11 : 10);
}

// The mean and deviation of five images make much of a last bit.
double rate_of(const std::string& name) { return name.starts_with("resnet") ? 0.01 : 0.1; }

// Each with its own inputs, targets and dropout, the same on all ranks.
double learn_once(const Model& model, bool text, int step) {
  torch::manual_seed(40 + step);
  const Tensor inputs =
      text ? torch::randint(11, {3, 7}, torch::kLong) : torch::randn({5, 1, 28, 28});
  const Tensor targets =
      text ? torch::randint(11, {3, 7}, torch::kLong) : torch::randint(10, {5}, torch::kLong);
  const Tensor loss = cross_entropy(model.forward(inputs), targets);
  loss.backward();
  return loss.item<double>();
}

void descend_once(const Model& model, double rate = 0.1) {
  const torch::NoGradGuard no_gradients;
  for (const auto& named : model.parameters) {
    Tensor parameter = named.second;
    parameter.sub_(parameter.grad(), rate);
    parameter.mutable_grad() = Tensor();
  }
}

Trained alone(const std::string& name) {
  torch::manual_seed(1);
  const Blueprint layers = network(name);
  const Model model = make_stage(layers, layers.all());
  EXPECT_TRUE(model.slices.empty());
  Trained trained;
  for (int step = 0; step < kSplitSteps; ++step) {
    trained.losses.push_back(learn_once(model, name == "char-gpt", step));
    descend_once(model, rate_of(name));
  }
  for (const auto& [of, tensor] : model.parameters) trained.weights[of] = tensor;
  for (const auto& [of, tensor] : model.buffers) trained.buffers[of] = tensor;
  return trained;
}

void share(const std::string& name, const Trained& oracle, Comm& comm) {
  const std::string what = fmt::format("{}, rank {} of {}", name, comm.rank(), comm.size());
  torch::manual_seed(1);
  const Blueprint layers = network(name);
  const TensorGroup group{Group(comm)};
  const Model model = make_stage(layers, layers.all(), SplitKit(group));
  for (std::size_t step = 0; step < kSplitSteps; ++step) {
    const double loss = learn_once(model, name == "char-gpt", static_cast<int>(step));
    EXPECT_NEAR(loss, oracle.losses[step], 1e-5) << what << ", step " << step;
    descend_once(model, rate_of(name));
  }
  ASSERT_EQ(model.parameters.size(), oracle.weights.size());
  std::size_t elements = 0;
  for (std::size_t i = 0; i < model.parameters.size(); ++i) {
    const auto& [of, mine] = model.parameters[i];
    elements += static_cast<std::size_t>(mine.numel());
    const auto slice = model.slices.find(i);
    const Tensor whole = comm.loop().run(
        assemble(group.group(), mine,
                 slice == model.slices.end() ? std::nullopt : std::optional(slice->second)));
    EXPECT_EQ(whole.defined(), comm.rank() == 0);
    if (comm.rank() == 0) expect_near(whole, oracle.weights.at(of), what + ", " + of);
  }
  ASSERT_EQ(model.buffers.size(), oracle.buffers.size());
  for (std::size_t i = 0; i < model.buffers.size(); ++i) {
    const auto& [of, mine] = model.buffers[i];
    const auto slice = model.buffer_slices.find(i);
    const Tensor whole = comm.loop().run(
        assemble(group.group(), mine,
                 slice == model.buffer_slices.end() ? std::nullopt : std::optional(slice->second)));
    if (comm.rank() == 0) expect_near(whole, oracle.buffers.at(of), what + ", " + of);
  }
  if (comm.size() > 1) {
    std::int64_t all = 0;
    for (const auto& [of, tensor] : oracle.weights) all += tensor.numel();
    EXPECT_LT(elements, static_cast<std::size_t>(all) * 3 / 4) << what << " has its share only";
  }
}

TEST(SplitModel, LearnsWhatOneProcessLearns) {
  for (const std::string name :
       {"mlp", "mnist-cnn", "cnn3", "local-net", "resnet, group", "resnet, batch", "char-gpt"}) {
    const Trained oracle = alone(name);
    for (int ranks = 1; ranks <= 3; ++ranks) {
      Cluster cluster(ranks);
      cluster.run(with_own_random(ranks, [&](Comm& comm) { share(name, oracle, comm); }));
    }
  }
}

TEST(SplitModel, RunsTwiceToTheSameBits) {
  std::vector<Tensor> seen;
  for (int run = 0; run < 2; ++run) {
    Cluster cluster(3);
    cluster.run(with_own_random(3, [&](Comm& comm) {
      torch::manual_seed(1);
      const Blueprint layers = network("char-gpt");
      const Model model = make_stage(layers, layers.all(), SplitKit(TensorGroup{Group(comm)}));
      learn_once(model, true, 0);
      for (const auto& named : model.parameters) seen.push_back(named.second.grad());
    }));
  }
  for (std::size_t i = 0; i < seen.size() / 2; ++i) {
    EXPECT_TRUE(torch::equal(seen[i], seen[i + seen.size() / 2]));
  }
}

TEST(SplitModel, WhatAllRanksHaveWholeStaysTheSameBitForBit) {
  std::vector<std::map<std::string, Tensor>> whole(3);
  Cluster cluster(3);
  cluster.run(with_own_random(3, [&](Comm& comm) {
    torch::manual_seed(1);
    const Blueprint layers = network("char-gpt");
    const Model model = make_stage(layers, layers.all(), SplitKit(TensorGroup{Group(comm)}));
    for (int step = 0; step < kSplitSteps; ++step) {
      learn_once(model, true, step);
      descend_once(model);
    }
    for (std::size_t i = 0; i < model.parameters.size(); ++i) {
      if (model.slices.contains(i)) continue;
      whole[static_cast<std::size_t>(comm.rank())].insert(model.parameters[i]);
    }
  }));
  EXPECT_EQ(whole[0].size(), 2 * (2 * 2 + 1) + 2u) << "norms, and the biases of rows";
  for (const auto& [name, tensor] : whole[0]) {
    EXPECT_TRUE(torch::equal(tensor, whole[1].at(name))) << name;
    EXPECT_TRUE(torch::equal(tensor, whole[2].at(name))) << name;
  }
}

TEST(SplitModel, AStageWithTheSecondOfTwoTiedLayersHasItsSlice) {
  Cluster cluster(2);
  cluster.run(with_own_random(2, [&](Comm& comm) {
    const Blueprint layers = network("char-gpt");
    const TensorGroup group{Group(comm)};
    torch::manual_seed(1);
    const Model all = make_stage(layers, layers.all(), SplitKit(group));
    torch::manual_seed(1);
    const Model last = make_stage(layers, {2, layers.layers.size()}, SplitKit(group));
    for (std::size_t i = 0; i < last.parameters.size(); ++i) {
      if (last.parameters[i].first != layers.tie->second) continue;
      EXPECT_TRUE(torch::equal(last.parameters[i].second, all.parameters[0].second));
      const Slice& slice = last.slices.at(i);
      EXPECT_EQ(slice.size, 11);
      EXPECT_EQ(slice.size_of(comm.rank()), comm.rank() == 0 ? 6 : 5);
      return;
    }
    FAIL() << "it has no weight of its own";
  }));
}

TEST(SplitModel, HeadsThatCannotBeSharedOutEvenlyAreRefused) {
  Cluster cluster(4);
  cluster.run(with_own_random(4, [&](Comm& comm) {
    const Blueprint layers = network("char-gpt");
    EXPECT_EQ(starling::error_of(
                  [&] { make_stage(layers, layers.all(), SplitKit(TensorGroup{Group(comm)})); }),
              "6 heads of attention cannot be shared out evenly among 4 ranks; choose a number of "
              "heads that --tensor divides");
  }));
}

}  // namespace
}  // namespace starling
