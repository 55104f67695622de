// The servers' optimizers beside libtorch's: the same weights after the same gradients.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <ostream>
#include <span>
#include <vector>

#include "server/optimizer.h"

namespace starling {
namespace {

using Kind = OptimizerSettings::Kind;

constexpr int kSteps = 100;
// Weights are of the order of 1, where a float is rounded by 2^-24 at the most. If each of the 100
// steps did that on both sides, and all in the same direction, they would part by
// 100 * 2 * 2^-24 = 1.2e-5. It goes in all directions: the largest difference seen is 9.5e-7.
constexpr double kTolerance = 2e-6;

struct Case {
  const char* name;
  OptimizerSettings settings;
};
void PrintTo(const Case& each, std::ostream* out) { *out << each.name; }
std::string name_of(const testing::TestParamInfo<Case>& info) { return info.param.name; }

std::unique_ptr<torch::optim::Optimizer> libtorch(const OptimizerSettings& settings,
                                                  const torch::Tensor& weights) {
  const std::vector<torch::Tensor> parameters = {weights};
  if (settings.kind == Kind::adagrad) {
    return std::make_unique<torch::optim::Adagrad>(parameters,
                                                   torch::optim::AdagradOptions(settings.lr)
                                                       .initial_accumulator_value(kAdagradStart)
                                                       .weight_decay(settings.weight_decay));
  }
  if (settings.kind == Kind::adam) {
    return std::make_unique<torch::optim::Adam>(parameters,
                                                torch::optim::AdamOptions(settings.lr)
                                                    .betas({settings.beta1, settings.beta2})
                                                    .weight_decay(settings.weight_decay));
  }
  if (settings.kind == Kind::adamw) {
    return std::make_unique<torch::optim::AdamW>(parameters,
                                                 torch::optim::AdamWOptions(settings.lr)
                                                     .betas({settings.beta1, settings.beta2})
                                                     .weight_decay(settings.weight_decay));
  }
  return std::make_unique<torch::optim::SGD>(parameters,
                                             torch::optim::SGDOptions(settings.lr)
                                                 .momentum(settings.momentum)
                                                 .nesterov(settings.kind == Kind::nesterov)
                                                 .weight_decay(settings.weight_decay));
}

std::span<float> floats_of(const torch::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

// From 1 down to 1e-9, where the epsilons under the roots begin to count.
torch::Tensor sizes_of_gradients(std::int64_t elements) {
  return torch::pow(10.0, -torch::arange(elements).remainder(10).to(torch::kFloat));
}

double largest_difference(std::span<const float> a, std::span<const float> b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!(difference <= largest)) largest = difference;  // also if it is not a number
  }
  return largest;
}

class ServerOptimizer : public testing::TestWithParam<Case> {};

TEST_P(ServerOptimizer, FollowsLibtorchsStepByStep) {
  const OptimizerSettings& settings = GetParam().settings;
  for (const std::int64_t elements : {1, 7, 1000}) {
    torch::manual_seed(elements);
    const torch::Tensor weights = torch::randn({elements});
    std::vector<float> ours(floats_of(weights).begin(), floats_of(weights).end());
    const std::vector<float> first = ours;
    const auto theirs = libtorch(settings, weights.requires_grad_());
    const auto optimizer = make_server_optimizer(settings, ours.size());
    const torch::Tensor sizes = sizes_of_gradients(elements);
    for (int step = 0; step < kSteps; ++step) {
      const torch::Tensor gradient = torch::randn({elements}) * sizes;
      weights.mutable_grad() = gradient.clone();
      theirs->step();
      optimizer->update(ours, floats_of(gradient));
      ASSERT_LE(largest_difference(ours, floats_of(weights)), kTolerance)
          << elements << " elements, step " << step;
    }
    EXPECT_GT(largest_difference(ours, first), 0.1) << "nothing has moved";
  }
}

TEST_P(ServerOptimizer, TakesAFactorForTheLearningRate) {
  const OptimizerSettings& settings = GetParam().settings;
  constexpr std::int64_t kElements = 20;
  torch::manual_seed(1);
  const torch::Tensor weights = torch::randn({kElements});
  std::vector<float> ours(floats_of(weights).begin(), floats_of(weights).end());
  const auto theirs = libtorch(settings, weights.requires_grad_());
  const auto optimizer = make_server_optimizer(settings, ours.size());
  for (int step = 0; step < kSteps; ++step) {
    const double factor = 1.0 / (1 + step % 3);
    const torch::Tensor gradient = torch::randn({kElements});
    weights.mutable_grad() = gradient.clone();
    theirs->param_groups()[0].options().set_lr(settings.lr * factor);
    theirs->step();
    optimizer->update(ours, floats_of(gradient), factor);
    ASSERT_LE(largest_difference(ours, floats_of(weights)), kTolerance) << "step " << step;
  }
}

TEST_P(ServerOptimizer, IsCopiedWithItsState) {
  torch::manual_seed(1);
  std::vector<float> weights(7, 1.0f);
  const auto optimizer = make_server_optimizer(GetParam().settings, weights.size());
  for (int step = 0; step < 3; ++step) {
    optimizer->update(weights, floats_of(torch::randn({7})));
  }
  const auto copy = optimizer->copy();
  const torch::Tensor gradient = torch::randn({7});
  std::vector<float> tried = weights, tried_again = weights;
  copy->update(tried, floats_of(gradient));
  copy->update(tried, floats_of(gradient));
  optimizer->update(tried_again, floats_of(gradient));  // the copy's updates have not touched it
  optimizer->update(tried_again, floats_of(gradient));
  EXPECT_EQ(tried, tried_again);
  EXPECT_NE(tried, weights);
}

// Sizes about those of vector registers, whose loops end in remainders.
TEST_P(ServerOptimizer, LeavesACopyOfTheNewWeightsWhereAskedAlsoInTheGradientsPlace) {
  for (const std::int64_t elements : {1, 7, 8, 33}) {
    torch::manual_seed(elements);
    const torch::Tensor first = torch::randn({elements});
    const std::vector<float> start(floats_of(first).begin(), floats_of(first).end());
    std::vector<float> plain = start, copied = start, in_place = start;
    std::vector<float> copy(start.size());
    const auto alone = make_server_optimizer(GetParam().settings, start.size());
    const auto copying = alone->copy(), placing = alone->copy();
    for (int step = 0; step < 3; ++step) {
      const torch::Tensor gradient = torch::randn({elements});
      alone->update(plain, floats_of(gradient));
      copying->update(copied, floats_of(gradient), 1, copy);
      EXPECT_EQ(copied, plain) << elements;
      EXPECT_EQ(copy, plain) << elements;
      std::vector<float> place(floats_of(gradient).begin(), floats_of(gradient).end());
      placing->update(in_place, place, 1, place);
      EXPECT_EQ(in_place, plain) << elements;
      EXPECT_EQ(place, plain) << elements;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ServerOptimizer,
    testing::Values(Case{"sgd", {Kind::sgd, 0.05, 0, 0}},
                    Case{"sgd_with_decay", {Kind::sgd, 0.05, 0, 0.01}},
                    Case{"momentum", {Kind::sgd, 0.02, 0.9, 0}},
                    Case{"momentum_with_decay", {Kind::sgd, 0.02, 0.9, 0.01}},
                    Case{"nesterov", {Kind::nesterov, 0.02, 0.9, 0}},
                    Case{"nesterov_with_decay", {Kind::nesterov, 0.02, 0.9, 0.01}},
                    Case{"adagrad", {Kind::adagrad, 0.2, 0, 0}},
                    Case{"adagrad_with_decay", {Kind::adagrad, 0.2, 0, 0.01}},
                    Case{"adam", {Kind::adam, 0.01, 0, 0}},
                    Case{"adam_with_decay", {Kind::adam, 0.01, 0, 0.01}},
                    Case{"adam_with_betas", {Kind::adam, 0.01, 0, 0, 0.8, 0.9}},
                    Case{"adamw", {Kind::adamw, 0.03, 0, 0.1, 0.9, 0.95}}),
    name_of);

}  // namespace
}  // namespace starling
