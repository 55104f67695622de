// A dense layer that keeps what its gradient is made of: the activations at its inputs and the
// errors at its outputs. A strategy may send those instead of the gradient (server/factors.h).
#pragma once

#include <torch/nn/modules/linear.h>

#include <memory>
#include <optional>

#include "server/factors.h"

namespace starling {

class DenseTrace {
 public:
  bool enabled = false;

  // Those of one backward pass; the micro-batches of a pipeline have one each.
  void keep(const torch::Tensor& activations, const torch::Tensor& errors);
  // When a step is over: one in which the layer takes no part has no factors.
  void forget();
  // Of all passes since then, sample behind sample; nothing if there was none. The spans are valid
  // until the next one.
  std::optional<Factors> factors();

 private:
  std::vector<torch::Tensor> activations_, errors_;
};

struct DenseImpl : torch::nn::LinearImpl {
  using torch::nn::LinearImpl::LinearImpl;
  torch::Tensor forward(const torch::Tensor& input);

  std::shared_ptr<DenseTrace> trace = std::make_shared<DenseTrace>();
};
TORCH_MODULE(Dense);

}  // namespace starling
