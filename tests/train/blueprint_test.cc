#include "train/blueprint.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/train/model_named.h"

namespace starling {
namespace {

constexpr int kSymbols = 63;

Blueprint blueprint(const std::string& name, int classes) {
  TrainSettings settings;
  settings.model = name;
  return *find_blueprint(settings, classes);
}

std::size_t parameters_of(const Model& model) {
  std::size_t count = 0;
  for (const auto& named : model.parameters)
    count += static_cast<std::size_t>(named.second.numel());
  return count;
}

// What is said of a network before it is made.
TEST(Blueprint, HasAsManyLayersAsItsSettingsSay) {
  for (const std::string_view name : blueprint_names()) {
    for (const int size : {1, 3, 4}) {
      TrainSettings settings;
      settings.model = name;
      settings.network.layers = settings.network.depth = size;
      EXPECT_EQ(layer_count(settings),
                static_cast<int>(find_blueprint(settings, kSymbols)->layers.size()))
          << name << " of size " << size;
    }
  }
}

TEST(CharGpt, HasTheKnownNumberOfParameters) {
  EXPECT_EQ(parameters_of(model_named("char-gpt", kSymbols)), 403'840u);
}

TEST(CharGpt, LooksOnlyBack) {
  torch::manual_seed(1);
  const Model model = model_named("char-gpt", kSymbols);
  const torch::Tensor text = torch::randint(kSymbols, {2, 20}, torch::kLong);
  torch::Tensor other = text.clone();
  other.narrow(1, 12, 8).copy_(torch::randint(kSymbols, {2, 8}, torch::kLong));
  const torch::Tensor scores = model.forward(text), changed = model.forward(other);
  ASSERT_EQ(scores.sizes(), (std::vector<std::int64_t>{2, 20, kSymbols}));
  EXPECT_TRUE(torch::allclose(scores.narrow(1, 0, 12), changed.narrow(1, 0, 12)));
  EXPECT_FALSE(torch::allclose(scores.narrow(1, 12, 8), changed.narrow(1, 12, 8)));
}

// With rotary positions only distances count: in a text of one symbol, every place sees the same.
// With weights that tell the order apart, a place sees what is behind it, and how far.
TEST(CharGpt, KnowsTheOrderOfWhatItHasSeen) {
  torch::manual_seed(1);
  Model model = model_named("char-gpt", kSymbols);
  for (auto& named : model.parameters) {
    torch::NoGradGuard no_grad;
    if (named.second.dim() == 2) named.second.mul_(5);  // first weights are too small to see it
  }
  const torch::Tensor text = torch::tensor({{1, 2, 3, 4}, {2, 1, 3, 4}}, torch::kLong);
  const torch::Tensor last = model.forward(text).select(1, 3);
  EXPECT_FALSE(torch::allclose(last[0], last[1], 1e-3, 1e-3));
}

TEST(CharGpt, UsesOneMatrixAtBothEnds) {
  Model model = model_named("char-gpt", kSymbols);
  const torch::Tensor text = torch::zeros({1, 4}, torch::kLong);
  model.forward(text).select(-1, 40).sum().backward();
  for (const auto& [name, tensor] : model.parameters) {
    if (name != "embedding.weight") continue;
    EXPECT_GT(tensor.grad()[0].abs().sum().item<float>(), 0) << "the symbol that went in";
    EXPECT_GT(tensor.grad()[40].abs().sum().item<float>(), 0) << "the symbol that came out";
    EXPECT_EQ(tensor.grad()[7].abs().sum().item<float>(), 0);
  }
}

// Wherever a layer is made, it begins with the same weights, and a chain of stages computes what the
// whole does.
TEST(MakeStage, MakesEveryCutOfTheSameNetwork) {
  for (const auto& [name, classes] : std::map<std::string, int>{{"mnist-cnn", 10},
                                                                {"cnn3", 10},
                                                                {"mlp", 10},
                                                                {"resnet", 10},
                                                                {"local-net", 10},
                                                                {"char-gpt", 63}}) {
    const Blueprint layers = blueprint(name, classes);
    torch::manual_seed(3);
    const Model whole = make_stage(layers, layers.all());
    std::map<std::string, torch::Tensor> weights(whole.parameters.begin(), whole.parameters.end());
    if (layers.tie) weights[layers.tie->second] = weights.at(layers.tie->first);
    const torch::Tensor input =
        classes == 63 ? torch::randint(63, {2, 10}, torch::kLong) : torch::randn({2, 1, 28, 28});
    whole.set_training(false);
    const torch::Tensor output = whole.forward(input);
    for (std::size_t cut = 1; cut < layers.layers.size(); ++cut) {
      torch::Tensor values = input;
      std::size_t parameters = 0;
      for (const Range range : {Range{0, cut}, Range{cut, layers.layers.size()}}) {
        torch::manual_seed(3);
        const Model stage = make_stage(layers, range);
        stage.set_training(false);
        values = stage.forward(values);
        parameters += parameters_of(stage);
        for (const auto& [of, tensor] : stage.parameters) {
          EXPECT_TRUE(torch::equal(tensor, weights.at(of)))
              << name << ", " << of << ", cut " << cut;
        }
      }
      EXPECT_TRUE(torch::allclose(values, output, 1e-5, 1e-6)) << name << ", cut " << cut;
      const auto twice = layers.tie ? weights.at(layers.tie->first).numel() : 0;
      EXPECT_EQ(parameters, parameters_of(whole) + static_cast<std::size_t>(twice)) << name;
    }
  }
}

}  // namespace
}  // namespace starling
