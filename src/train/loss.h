// How far a model's scores are from what it should have said.
#pragma once

#include <torch/nn/functional/loss.h>

#include <functional>

namespace starling {

// The mean over some samples.
using Loss =
    std::function<torch::Tensor(const torch::Tensor& scores, const torch::Tensor& targets)>;

// Scores of all classes come last, in front of them stand samples, and perhaps places in a sample.
template <class Reduction = torch::enumtype::kMean>
torch::Tensor cross_entropy(const torch::Tensor& scores, const torch::Tensor& targets,
                            Reduction reduction = torch::kMean) {
  return torch::nn::functional::cross_entropy(
      scores.flatten(0, -2), targets.flatten(),
      torch::nn::functional::CrossEntropyFuncOptions().reduction(reduction));
}

inline torch::Tensor mean_cross_entropy(const torch::Tensor& scores, const torch::Tensor& targets) {
  return cross_entropy(scores, targets);
}

}  // namespace starling
