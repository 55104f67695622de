// A dense layer that keeps what its gradient is made of: the activations at its inputs and the
// errors at its outputs. A strategy may send those instead of the gradient (server/factors.h).
#pragma once

#include <torch/nn/modules/linear.h>

#include <memory>
#include <optional>

#include "server/factors.h"

namespace starling {

struct DenseTrace {
  bool enabled = false;
  torch::Tensor activations;  // of the last forward pass
  torch::Tensor errors;       // of the last backward pass

  // A step in which the layer takes no part has no factors.
  void forget() { errors = torch::Tensor(); }
  // Nothing before the first backward pass. The spans are valid until the next forward pass.
  std::optional<Factors> factors() const;
};

struct DenseImpl : torch::nn::LinearImpl {
  using torch::nn::LinearImpl::LinearImpl;
  torch::Tensor forward(const torch::Tensor& input);

  std::shared_ptr<DenseTrace> trace = std::make_shared<DenseTrace>();
};
TORCH_MODULE(Dense);

}  // namespace starling
