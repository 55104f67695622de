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
  // Of which parameters this rank has only a slice, and which one; the same of buffers.
  std::map<std::size_t, Slice> slices, buffer_slices;
  // A parameter that another stage has a copy of, where the model is cut between layers that share
  // one (train/tied.h).
  struct Tied {
    std::size_t parameter;
    bool is_second;
  };
  std::optional<Tied> tied;

  // Whether what this rank has of a parameter counts when something is added up over a whole copy of
  // the model: of what several ranks have, one does.
  bool counts(std::size_t parameter, bool is_first_part) const {
    if (tied && tied->parameter == parameter && tied->is_second) return false;
    return is_first_part || slices.contains(parameter);
  }
};

// A built-in network (train/blueprint.h) or a TorchScript file (*.pt), whole; throws Error for anything
// else.
Model make_model(const TrainSettings& settings, int classes);

// A user's module; forward stays with the user.
Model model_of(torch::nn::Module& module);

}  // namespace starling
