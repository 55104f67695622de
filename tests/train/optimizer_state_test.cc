#include "train/optimizer_state.h"

#include <gtest/gtest.h>
#include <torch/optim.h>

#include "base/error.h"

namespace starling {
namespace {

using torch::optim::Adagrad, torch::optim::AdagradOptions;
using torch::optim::Adam, torch::optim::AdamOptions, torch::optim::AdamW,
    torch::optim::AdamWOptions;
using torch::optim::LBFGS, torch::optim::LBFGSOptions, torch::optim::SGD, torch::optim::SGDOptions;
using torch::optim::RMSprop, torch::optim::RMSpropOptions;

std::vector<torch::Tensor> parameters() {
  torch::manual_seed(1);
  return {torch::randn({3, 2}).requires_grad_(), torch::randn({4}).requires_grad_()};
}

// A step down a gradient that depends on the parameters and on the step.
void step(torch::optim::Optimizer& optimizer, std::vector<torch::Tensor>& weights, int number) {
  for (torch::Tensor& weight : weights) {
    weight.mutable_grad() = weight.detach() * (number % 3) + 0.1 * number;
  }
  optimizer.step();
}

template <class Kind, class Options>
void expect_to_go_on(const Options& options) {
  for (const int cut : {0, 1, 4}) {
    std::vector<torch::Tensor> never = parameters(), weights = parameters();
    Kind straight(never, options), first(weights, options);
    for (int i = 0; i < 8; ++i) step(straight, never, i);
    for (int i = 0; i < cut; ++i) step(first, weights, i);
    Snapshot snapshot;
    visit_state(first, State::saving(snapshot));
    snapshot = decode_snapshot(encode(snapshot));
    std::vector<torch::Tensor> later;
    for (const torch::Tensor& weight : weights) {
      later.push_back(weight.detach().clone().requires_grad_());
    }
    for (int i = cut; i < 8; ++i) step(first, weights, i);  // what was copied stays as it was
    Kind second(later, options);
    visit_state(second, State::restoring(snapshot));
    for (int i = cut; i < 8; ++i) step(second, later, i);
    for (std::size_t i = 0; i < never.size(); ++i) EXPECT_TRUE(torch::equal(never[i], later[i]));
  }
}

TEST(OptimizerState, EveryKindGoesOnBitForBit) {
  expect_to_go_on<SGD>(SGDOptions(0.1));
  expect_to_go_on<SGD>(SGDOptions(0.1).momentum(0.9).nesterov(true));
  expect_to_go_on<Adagrad>(AdagradOptions(0.1));
  expect_to_go_on<Adam>(AdamOptions(0.1).amsgrad(true));
  expect_to_go_on<AdamW>(AdamWOptions(0.1));
  expect_to_go_on<RMSprop>(RMSpropOptions(0.1).momentum(0.5).centered(true));
}

TEST(OptimizerState, RefusesThatOfAnotherModelAndAnotherOptimizer) {
  std::vector<torch::Tensor> weights = parameters();
  SGD sgd(weights, SGDOptions(0.1).momentum(0.9));
  step(sgd, weights, 0);
  Snapshot snapshot;
  visit_state(sgd, State::saving(snapshot));
  std::vector<torch::Tensor> longer = {torch::zeros({7}).requires_grad_()};
  SGD other(longer, SGDOptions(0.1).momentum(0.9));
  EXPECT_THROW(visit_state(other, State::restoring(snapshot)), Error);
  Adam adam(weights, AdamOptions(0.1));
  EXPECT_THROW(visit_state(adam, State::restoring(snapshot)), Error);
  LBFGS unknown(weights, LBFGSOptions());
  EXPECT_THROW(visit_state(unknown, State::saving(snapshot)), Error);
}

}  // namespace
}  // namespace starling
