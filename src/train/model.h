// A model as the trainer sees it, whether it is one of ours, a user's torch::nn::Module or a
// TorchScript file.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "strategy/train_settings.h"
#include "train/dense.h"
#include "train/slice.h"

namespace starling {

struct Model {
  using Named = std::pair<std::string, torch::Tensor>;

  std::vector<Named> parameters;
  std::vector<Named> buffers;  // floating-point state that is not trained, e.g. running means
  std::function<torch::Tensor(torch::Tensor)> forward;  // images in, one score a class out
  std::function<void(bool training)> set_training;
  // Which parameters are the matrices of dense layers, and what those see.
  std::vector<std::pair<std::size_t, std::shared_ptr<DenseTrace>>> dense;
  // Of which parameters this rank has only a slice, and which one.
  std::map<std::size_t, Slice> slices;
};

// A built-in network (train/blueprint.h) or a TorchScript file (*.pt), whole; throws Error for anything
// else.
Model make_model(const TrainSettings& settings, int classes);

// A user's module; forward stays with the user.
Model model_of(torch::nn::Module& module);

}  // namespace starling
