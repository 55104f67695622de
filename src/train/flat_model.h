// FlatModel: a model whose tensors live in two flat vectors, one of weights and one of gradients.
// The model goes on to use its tensors as before; strategies see plain spans.
#pragma once

#include "strategy/strategy.h"
#include "train/model.h"

namespace starling {

class FlatModel {
 public:
  // Moves the model's tensors into the flat vectors; only 32-bit floats on the CPU. Throws Error
  // otherwise.
  explicit FlatModel(Model model);

  const Model& model() const { return model_; }
  Replica replica();
  torch::Tensor weights() { return weights_; }
  torch::Tensor gradients() { return gradients_; }

  // The parameters alone, as one tensor with its gradient: an optimizer over it does for the whole
  // model in a few operations what it would otherwise do tensor by tensor.
  torch::Tensor flat_parameter();
  // The same in stretches, those of matrices (two dimensions and more) apart from all others.
  struct Stretches {
    std::vector<torch::Tensor> matrices, others;
  };
  Stretches flat_stretches();

  // Where parameter i stands in the gradients.
  Range range(std::size_t parameter) const { return ranges_[parameter]; }

  // The matrices among the parameters; of more than two dimensions, the first is that of the rows.
  std::vector<Fold> folds() const;

  // A user's zero_grad() may have cut a gradient loose from the flat vector, or a parameter may
  // have got none in this step: brings both back, for these parameters.
  void reclaim_gradients(Range parameters);
  void zero_gradients() { gradients_.zero_(); }

 private:
  torch::Tensor gradient_view(std::size_t parameter);
  torch::Tensor flat_parameter(Range range);

  Model model_;
  std::vector<Range> ranges_;
  torch::Tensor weights_;
  torch::Tensor gradients_;
};

}  // namespace starling
