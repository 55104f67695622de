#include "train/flat_model.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/optim.h>

#include <torch/script.h>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "tests/train/model_named.h"

namespace starling {
namespace {

TEST(FlatModel, AliasesTheTensorsOfTheModel) {
  for (const char* name : {"mnist-cnn", "cnn3", "mlp"}) {
    torch::manual_seed(1);
    const torch::Tensor images = torch::randn({2, 1, 28, 28});
    Model model = model_named(name);
    model.set_training(false);
    const torch::Tensor before = model.forward(images).detach().clone();
    FlatModel flat(model);
    EXPECT_TRUE(torch::equal(model.forward(images), before))
        << name << " changed when it was flattened";

    const Replica replica = flat.replica();
    for (float& weight : replica.weights) weight = 0;
    EXPECT_EQ(model.forward(images).abs().sum().item<float>(), 0) << name;

    for (float& weight : replica.weights) weight = 0.01f;
    model.forward(images).sum().backward();
    double sum = 0;
    for (const auto& named : model.parameters) sum += named.second.grad().sum().item<double>();
    double flat_sum = 0;
    for (float gradient : replica.gradients) flat_sum += static_cast<double>(gradient);
    EXPECT_NE(flat_sum, 0);
    EXPECT_NEAR(sum, flat_sum, std::abs(sum) * 1e-4) << name;
    flat.zero_gradients();
    EXPECT_EQ(model.parameters[0].second.grad().abs().sum().item<float>(), 0);
  }
}

TEST(FlatModel, HasTheKnownNumberOfParameters) {
  EXPECT_EQ(FlatModel(model_named("mnist-cnn")).replica().gradients.size(), 21'840u);
  EXPECT_EQ(FlatModel(model_named("mlp")).replica().gradients.size(), 784u * 128 + 128 + 1280 + 10);
}

TEST(FlatModel, PutsBuffersBehindTheParameters) {
  torch::nn::BatchNorm1d norm(4);
  FlatModel flat(model_of(*norm));
  EXPECT_EQ(flat.replica().gradients.size(), 8u);
  EXPECT_EQ(flat.replica().weights.size(), 16u);
  flat.replica().weights[8] = 42;  // the first running mean
  EXPECT_EQ(norm->running_mean[0].item<float>(), 42);
}

TEST(FlatModel, OptimizesAllTensorsThroughTheFlatOne) {
  torch::nn::Linear a(5, 3), b(5, 3);
  {
    torch::NoGradGuard no_grad;
    b->weight.copy_(a->weight);
    b->bias.copy_(a->bias);
  }
  FlatModel flat(model_of(*a));
  torch::optim::Adam flat_optimizer({flat.flat_parameter()}, 0.1), plain(b->parameters(), 0.1);
  for (int step = 0; step < 20; ++step) {
    const torch::Tensor x = torch::randn({4, 5});
    flat.zero_gradients();
    plain.zero_grad();
    a(x).pow(2).sum().backward();
    b(x).pow(2).sum().backward();
    flat_optimizer.step();
    plain.step();
  }
  EXPECT_TRUE(torch::allclose(a->weight, b->weight, 1e-5, 1e-6));
}

// A matrix, two vectors, a matrix, a vector: what belongs together and lies together is one stretch.
TEST(FlatModel, KnowsTheStretchesOfMatrices) {
  torch::nn::Sequential layers(torch::nn::Linear(3, 2), torch::nn::BatchNorm1d(2),
                               torch::nn::Linear(2, 4));
  FlatModel flat(model_of(*layers));
  auto [matrices, others] = flat.flat_stretches();
  const auto sizes = [](const std::vector<torch::Tensor>& tensors) {
    std::vector<std::int64_t> all;
    for (const auto& tensor : tensors) all.push_back(tensor.numel());
    return all;
  };
  EXPECT_EQ(sizes(matrices), (std::vector<std::int64_t>{6, 8}));
  EXPECT_EQ(sizes(others), (std::vector<std::int64_t>{2 + 2 + 2, 4}));

  flat.replica().gradients[6] = 42;
  EXPECT_EQ(others[0].grad()[0].item<float>(), 42) << "its gradient lies where its weights do";
  flat.replica().weights[6 + 6] = 43;
  EXPECT_EQ(matrices[1][0].item<float>(), 43);
}

TEST(FlatModel, RefusesWhatIsNotFloat) {
  torch::nn::Linear layer(2, 2);
  layer->to(torch::kDouble);
  EXPECT_THROW(FlatModel(model_of(*layer)), Error);
}

TEST(MakeModel, NamesTheModelsThereAre) {
  try {
    model_named("vgg");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "there is no model 'vgg'; there are mnist-cnn, cnn3, mlp, resnet, local-net, "
                 "char-gpt, and TorchScript files (*.pt)");
  }
}

// What make_model says of a TorchScript file whose forward is given.
std::string refusal_of_script(const std::string& forward) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "model.pt").string();
  torch::jit::Module module("script");
  module.register_parameter("w", torch::ones({784, 10}), false);
  module.define("def forward(self, x):\n    return " + forward + "\n");
  module.save(file);
  try {
    model_named(file);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(MakeModel, SaysInOneLineWhatIsWrongWithATorchScriptModel) {
  EXPECT_EQ(refusal_of_script("x.flatten(1).mm(self.w)"), "");
  const std::string shapes = refusal_of_script("x.flatten(2).flatten(0).mm(self.w)");
  EXPECT_NE(shapes.find("model.pt does not take images of 1 x 28 x 28: "), std::string::npos)
      << shapes;
  EXPECT_EQ(shapes.find('\n'), std::string::npos) << shapes;
  const std::string few = refusal_of_script("x.flatten(1).mm(self.w[:, :5])");
  EXPECT_NE(few.find("gives 10 numbers for 2 images, shaped 2 x 5"), std::string::npos) << few;
}

}  // namespace
}  // namespace starling
