#include "train/dense.h"

namespace starling {

torch::Tensor DenseImpl::forward(const torch::Tensor& input) {
  torch::Tensor output = LinearImpl::forward(input);
  if (trace->enabled && output.requires_grad() && input.dim() == 2) {
    // Called before the layer's own gradient is formed.
    output.register_hook([kept = trace, activations = input.detach()](const torch::Tensor& errors) {
      kept->keep(activations, errors);
    });
  }
  return output;
}

void DenseTrace::keep(const torch::Tensor& activations, const torch::Tensor& errors) {
  activations_.push_back(activations);
  errors_.push_back(errors.detach());
}

void DenseTrace::forget() {
  activations_.clear();
  errors_.clear();
}

std::optional<Factors> DenseTrace::factors() {
  if (errors_.empty()) return std::nullopt;
  const auto joined = [](std::vector<torch::Tensor>& passes) {
    passes = {(passes.size() == 1 ? passes[0] : torch::cat(passes)).contiguous()};
    return passes[0];
  };
  const auto values = [](const torch::Tensor& tensor) {
    return std::span<const float>(tensor.data_ptr<float>(),
                                  static_cast<std::size_t>(tensor.numel()));
  };
  const torch::Tensor activations = joined(activations_), errors = joined(errors_);
  Factors factors;
  factors.shape = {static_cast<std::uint64_t>(activations.size(0)),
                   static_cast<std::uint64_t>(activations.size(1)),
                   static_cast<std::uint64_t>(errors.size(1))};
  factors.activations = values(activations);
  factors.errors = values(errors);
  return factors;
}

}  // namespace starling
