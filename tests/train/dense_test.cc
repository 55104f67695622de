// What dense layers keep of a backward pass, beside the gradients that torch forms of it.
#include "train/dense.h"

#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>

#include <cmath>

#include "tests/train/model_named.h"

namespace starling {
namespace {

Model traced_model(const std::string& name) {
  torch::manual_seed(1);
  Model model = model_named(name);
  for (auto& [index, trace] : model.dense) trace->enabled = true;
  return model;
}

void backward(Model& model, std::int64_t samples) {
  for (auto& [name, parameter] : model.parameters) parameter.mutable_grad() = torch::Tensor();
  for (auto& [index, trace] : model.dense) trace->forget();
  const torch::Tensor images = torch::randn({samples, 1, 28, 28});
  const torch::Tensor labels = torch::randint(10, {samples});
  (torch::nn::functional::cross_entropy(model.forward(images), labels) * 0.7).backward();
}

std::vector<float> values(const torch::Tensor& tensor) {
  const torch::Tensor flat = tensor.detach().contiguous();
  return {flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel()};
}

// Torch adds the products of the samples up in another order, which may make a difference of
// batch * 2^-24 of the sum of their sizes.
double rounding(const Factors& factors, std::size_t element) {
  const auto [batch, inputs, outputs] = factors.shape;
  double sizes = 0;
  for (std::size_t sample = 0; sample < batch; ++sample) {
    sizes += std::abs(static_cast<double>(factors.errors[sample * outputs + element / inputs]) *
                      static_cast<double>(factors.activations[sample * inputs + element % inputs]));
  }
  return static_cast<double>(batch) * 0x1.0p-24 * sizes;
}

void expect_block(const Factors& factors, const std::vector<float>& gradient, std::size_t offset,
                  std::size_t count) {
  std::vector<float> block(count, -1.0f);
  multiply(factors, offset, block);
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_NEAR(static_cast<double>(block[i]), static_cast<double>(gradient[offset + i]),
                rounding(factors, offset + i))
        << "element " << i << " of " << count << " from " << offset;
  }
}

TEST(Dense, KeepsTheFactorsOfItsGradient) {
  for (const char* name : {"mlp", "mnist-cnn", "cnn3"}) {
    Model model = traced_model(name);
    EXPECT_EQ(model.dense.size(), std::string(name) == "cnn3" ? 1u : 2u);
    for (std::int64_t samples : {32, 1, 5}) {
      backward(model, samples);
      for (const auto& [index, trace] : model.dense) {
        const auto& [parameter_name, parameter] = model.parameters[index];
        SCOPED_TRACE(std::string(name) + " " + parameter_name + ", batch " +
                     std::to_string(samples));
        const auto factors = trace->factors();
        ASSERT_TRUE(factors);
        EXPECT_EQ(factors->shape.batch, static_cast<std::uint64_t>(samples));
        ASSERT_EQ(factors->shape.outputs, static_cast<std::uint64_t>(parameter.size(0)));
        ASSERT_EQ(factors->shape.inputs, static_cast<std::uint64_t>(parameter.size(1)));

        const std::vector<float> gradient = values(parameter.grad());
        EXPECT_GT(parameter.grad().abs().max().item<float>(), 0);
        const std::size_t all = gradient.size(), row = factors->shape.inputs;
        expect_block(*factors, gradient, 0, all);
        expect_block(*factors, gradient, row / 2, row / 3);      // within a row
        expect_block(*factors, gradient, row - 1, 2);            // across an edge
        expect_block(*factors, gradient, row / 2, 2 * row + 3);  // from mid-row to mid-row
        expect_block(*factors, gradient, all / 2 + 1, all / 3);
        expect_block(*factors, gradient, all - 1, 1);
      }
    }
  }
}

TEST(Dense, KeepsNothingUnlessItIsTold) {
  Model model = model_named("mlp");
  backward(model, 4);
  for (const auto& [index, trace] : model.dense) EXPECT_FALSE(trace->factors());
}

// Micro-batches of a pipeline: several are on their way when the first goes back.
TEST(Dense, AddsUpTheFactorsOfAllBackwardPassesOfAStep) {
  Model model = traced_model("mlp");
  for (auto& [name, parameter] : model.parameters) parameter.mutable_grad() = torch::Tensor();
  const torch::Tensor first = model.forward(torch::randn({3, 1, 28, 28}));
  const torch::Tensor second = model.forward(torch::randn({2, 1, 28, 28}));
  first.square().mean().backward();
  second.square().mean().backward();
  for (const auto& [index, trace] : model.dense) {
    const auto factors = trace->factors();
    ASSERT_TRUE(factors);
    EXPECT_EQ(factors->shape.batch, 5u);
    const std::vector<float> gradient = values(model.parameters[index].second.grad());
    expect_block(*factors, gradient, 0, gradient.size());
  }
}

// Else the factors of one step could go with the next one's gradient.
TEST(Dense, HasNoFactorsBetweenTheEndOfAStepAndABackwardPass) {
  Model model = traced_model("mlp");
  const auto expect_factors = [&](bool expected) {
    for (const auto& [index, trace] : model.dense) {
      EXPECT_EQ(trace->factors().has_value(), expected);
    }
  };
  expect_factors(false);
  backward(model, 4);
  expect_factors(true);
  for (const auto& [index, trace] : model.dense) trace->forget();
  expect_factors(false);
  const torch::Tensor scores = model.forward(torch::randn({4, 1, 28, 28}));
  expect_factors(false);
  scores.sum().backward();
  expect_factors(true);
}

// An evaluation between two steps leaves the factors alone.
TEST(Dense, KeepsTheFactorsWhileItIsOnlyAsked) {
  Model model = traced_model("mlp");
  backward(model, 4);
  const auto errors = [&] {
    const std::span<const float> kept = model.dense[0].second->factors()->errors;
    return std::vector<float>(kept.begin(), kept.end());
  };
  const std::vector<float> before = errors();
  {
    torch::NoGradGuard no_gradients;
    model.forward(torch::randn({100, 1, 28, 28}));
  }
  EXPECT_EQ(model.dense[0].second->factors()->shape.batch, 4u);
  EXPECT_EQ(errors(), before);
}

}  // namespace
}  // namespace starling
