// A blueprint: a network as a list of layers that are yet to be made, so that it can be made whole, or
// one stage of it where the others live elsewhere.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/range.h"
#include "strategy/train_settings.h"
#include "train/kit.h"
#include "train/model.h"

namespace starling {

struct Layer {
  // Modules by the names that their parameters have in the whole network.
  std::vector<std::pair<std::string, std::shared_ptr<torch::nn::Module>>> parts;
  std::function<torch::Tensor(torch::Tensor)> forward;
};

// Layers draw their first weights one behind the other from the same stream. Those of other stages
// are drawn as well, and let go at once: wherever a layer is made, it begins with the same weights.
struct Drawing {
  const Kit& kit;
  // A parameter that a later layer uses, too, what slice of it this rank has, and whether it is made
  // in the same stage.
  torch::Tensor tied = {};
  std::optional<Slice> tied_slice = {};
  bool tied_is_here = true;
};

struct Blueprint {
  struct Part {
    std::string name;
    std::function<Layer(Drawing&)> make;
  };
  std::vector<Part> layers;
  // Where the first parameter's layer lives in another stage than the second's, both have a copy.
  struct Tie {
    std::string first, second;
  };
  std::optional<Tie> tie;

  Range all() const { return {0, layers.size()}; }
};

// Made of that kit.
Model make_stage(const Blueprint& blueprint, Range layers, const Kit& kit = Kit());

// Of the built-in network that is set, for so many classes; nothing if there is none of that name.
std::optional<Blueprint> find_blueprint(const TrainSettings& settings, int classes);

std::vector<std::string_view> blueprint_names();

// One function a network, each in the file of its name.
Blueprint mnist_cnn();
Blueprint cnn3();
Blueprint mlp();
Blueprint resnet(const NetworkSettings& settings);
Blueprint local_net(const NetworkSettings& settings);
Blueprint char_gpt(const NetworkSettings& settings, int symbols);

}  // namespace starling
