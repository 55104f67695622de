#include "train/dense.h"

namespace starling {

torch::Tensor DenseImpl::forward(const torch::Tensor& input) {
  torch::Tensor output = LinearImpl::forward(input);
  if (trace->enabled && output.requires_grad() && input.dim() == 2) {
    trace->activations = input.detach().contiguous();
    trace->errors = torch::Tensor();
    // Called before the layer's own gradient is formed.
    output.register_hook([kept = trace](const torch::Tensor& errors) {
      kept->errors = errors.detach().contiguous();
    });
  }
  return output;
}

std::optional<Factors> DenseTrace::factors() const {
  if (!errors.defined()) return std::nullopt;
  const auto values = [](const torch::Tensor& tensor) {
    return std::span<const float>(tensor.data_ptr<float>(),
                                  static_cast<std::size_t>(tensor.numel()));
  };
  Factors factors;
  factors.shape = {static_cast<std::uint64_t>(activations.size(0)),
                   static_cast<std::uint64_t>(activations.size(1)),
                   static_cast<std::uint64_t>(errors.size(1))};
  factors.activations = values(activations);
  factors.errors = values(errors);
  return factors;
}

}  // namespace starling
