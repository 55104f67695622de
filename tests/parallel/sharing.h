// Ranks of a simulated group that share a network, beside one process that has it whole.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include "parallel/tensor_group.h"
#include "sim/rank_threads.h"
#include "train/model.h"

namespace starling {

// In one process all ranks share torch's random numbers: these are each rank's own.
class OwnRandom {
 public:
  explicit OwnRandom(int ranks) : states_(static_cast<std::size_t>(ranks)) {}
  void operator()(int rank) {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    torch::Tensor& own = states_[static_cast<std::size_t>(rank)];
    const torch::Tensor current = generator.get_state();
    if (own.defined()) generator.set_state(own);
    own = current;
  }

 private:
  std::vector<torch::Tensor> states_;
};

inline Cluster::Program with_own_random(int ranks, std::function<void(Comm&)> program) {
  return in_threads(std::move(program), [own = OwnRandom(ranks)](int rank) mutable { own(rank); });
}

// As near as sums in another order can be.
inline void expect_near(const torch::Tensor& seen, const torch::Tensor& expected,
                        const std::string& what) {
  ASSERT_TRUE(seen.defined()) << what;
  ASSERT_EQ(seen.sizes(), expected.sizes()) << what;
  EXPECT_TRUE(torch::allclose(seen, expected, 1e-4, 1e-5))
      << what << " is off by " << (seen - expected).abs().max().item<double>();
}

// Made on every rank, with its group, and once without one.
struct Shared {
  std::shared_ptr<torch::nn::Module> root;
  std::function<torch::Tensor(const torch::Tensor&)> forward;
};
using MakeShared = std::function<Shared(const TensorGroup* group)>;

// Output, the input's gradient, weights and their gradients are the whole's, on all ranks.
inline void expect_same_as_whole(const MakeShared& make, const torch::Tensor& input, int ranks,
                                 const std::string& what) {
  struct Pass {
    torch::Tensor input, output;
    Model model;
  };
  const auto pass = [&](const TensorGroup* group) {
    torch::manual_seed(5);
    const Shared made = make(group);
    torch::Tensor x = input.clone();
    if (x.is_floating_point()) x.requires_grad_();
    const torch::Tensor y = made.forward(x);
    // Each output matters in another way, and more than linearly.
    const torch::Tensor share = torch::linspace(-1, 1, y.numel()).view(y.sizes());
    (y * y * share + y).sum().backward();
    return Pass{x, y.detach(), model_of(*made.root)};
  };
  const Pass whole = pass(nullptr);
  Cluster cluster(ranks);
  cluster.run(with_own_random(ranks, [&](Comm& comm) {
    const TensorGroup group{Group(comm)};
    const Pass mine = pass(&group);
    const std::string here = fmt::format("{}, rank {} of {}: ", what, comm.rank(), ranks);
    expect_near(mine.output, whole.output, here + "output");
    if (whole.input.grad().defined()) {
      expect_near(mine.input.grad(), whole.input.grad(), here + "the input's gradient");
    }
    ASSERT_EQ(mine.model.parameters.size(), whole.model.parameters.size());
    for (std::size_t i = 0; i < mine.model.parameters.size(); ++i) {
      const auto& [name, parameter] = mine.model.parameters[i];
      EXPECT_EQ(name, whole.model.parameters[i].first);
      torch::Tensor expected = whole.model.parameters[i].second.detach();
      torch::Tensor gradient = whole.model.parameters[i].second.grad();
      if (const auto slice = mine.model.slices.find(i); slice != mine.model.slices.end()) {
        expected = slice->second.take(expected);
        gradient = slice->second.take(gradient);
      }
      EXPECT_TRUE(torch::equal(parameter, expected)) << here << name;
      expect_near(parameter.grad(), gradient, here + name + "'s gradient");
    }
  }));
}

}  // namespace starling
