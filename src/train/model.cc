#include "train/model.h"

#include <fmt/format.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/script.h>

#include <filesystem>
#include <memory>
#include <string_view>

#include "base/error.h"
#include "base/names.h"

namespace starling {

namespace {

using torch::Tensor;
namespace nn = torch::nn;

// The small network of the classic MNIST examples: 21,840 parameters.
struct MnistCnn : nn::Module {
  nn::Conv2d conv1{register_module("conv1", nn::Conv2d(1, 10, 5))};
  nn::Conv2d conv2{register_module("conv2", nn::Conv2d(10, 20, 5))};
  nn::Dropout2d drop2{register_module("drop2", nn::Dropout2d())};
  Dense fc1{register_module("fc1", Dense(320, 50))};
  nn::Dropout drop1{register_module("drop1", nn::Dropout())};
  Dense fc2{register_module("fc2", Dense(50, 10))};

  Tensor forward(Tensor x) {
    x = torch::relu(torch::max_pool2d(conv1(x), 2));
    x = torch::relu(torch::max_pool2d(drop2(conv2(x)), 2));
    x = torch::relu(fc1(x.view({-1, 320})));
    return fc2(drop1(x));
  }
};

// Three convolution layers, as in the experiment of pair-wise averaging's first paper.
struct Cnn3 : nn::Module {
  nn::Conv2d conv1{register_module("conv1", nn::Conv2d(nn::Conv2dOptions(1, 16, 3).padding(1)))};
  nn::Conv2d conv2{register_module("conv2", nn::Conv2d(nn::Conv2dOptions(16, 32, 3).padding(1)))};
  nn::Conv2d conv3{register_module("conv3", nn::Conv2d(nn::Conv2dOptions(32, 64, 3).padding(1)))};
  Dense fc{register_module("fc", Dense(64 * 3 * 3, 10))};

  Tensor forward(Tensor x) {
    x = torch::max_pool2d(torch::relu(conv1(x)), 2);
    x = torch::max_pool2d(torch::relu(conv2(x)), 2);
    x = torch::max_pool2d(torch::relu(conv3(x)), 2);
    return fc(x.flatten(1));
  }
};

// One hidden layer and no dropout: with it, runs can be compared number by number.
struct Mlp : nn::Module {
  Dense fc1{register_module("fc1", Dense(784, 128))};
  Dense fc2{register_module("fc2", Dense(128, 10))};

  Tensor forward(Tensor x) { return fc2(torch::relu(fc1(x.flatten(1)))); }
};

template <class Network>
Model built_in() {
  auto network = std::make_shared<Network>();
  Model model = model_of(*network);
  model.forward = [network](Tensor images) { return network->forward(std::move(images)); };
  return model;
}

// What is wrong, without the traces that torch puts around it.
std::string reason(const std::exception& error) {
  const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
  std::string text = of_torch != nullptr ? of_torch->what_without_backtrace() : error.what();
  constexpr std::string_view kPrefix = "RuntimeError: ";
  if (const auto at = text.rfind(kPrefix); at != std::string::npos) {
    text = text.substr(at + kPrefix.size());
  }
  return text.substr(0, text.find('\n'));
}

// Tries the model on two images, without leaving a trace in it.
void check_fits_digits(const std::string& file, const Model& model) {
  if (model.parameters.empty()) throw Error(fmt::format("{} has no parameters to train", file));
  Tensor classes;
  try {
    const torch::NoGradGuard no_gradients;
    model.set_training(false);
    classes = model.forward(torch::zeros({2, 1, 28, 28}));
  } catch (const std::exception& error) {
    throw Error(fmt::format("{} does not take images of 1 x 28 x 28: {}", file, reason(error)),
                "it gets a batch of them, and gives 10 numbers for each");
  }
  model.set_training(true);
  if (classes.dim() != 2 || classes.size(0) != 2 || classes.size(1) != 10) {
    throw Error(fmt::format("{} gives {} numbers for 2 images, shaped {}", file, classes.numel(),
                            fmt::join(classes.sizes().vec(), " x ")),
                "it must give 10 for each, one for a digit");
  }
}

struct BuiltInModel {
  std::string_view name;
  Model (*make)();
};
constexpr BuiltInModel kBuiltInModels[] = {
    {"mnist-cnn", built_in<MnistCnn>}, {"cnn3", built_in<Cnn3>}, {"mlp", built_in<Mlp>}};

Model torch_script(const std::string& file) {
  std::shared_ptr<torch::jit::Module> module;
  try {
    module = std::make_shared<torch::jit::Module>(torch::jit::load(file));
  } catch (const std::exception&) {  // whose text is a stack trace
    throw Error(fmt::format("{} is not a TorchScript file", file),
                "save one with torch.jit.script(model).save(\"model.pt\")");
  }
  Model model;
  for (const auto& each : module->named_parameters())
    model.parameters.emplace_back(each.name, each.value);
  for (const auto& each : module->named_buffers()) {
    if (each.value.scalar_type() == torch::kFloat)
      model.buffers.emplace_back(each.name, each.value);
  }
  model.forward = [module](Tensor images) {
    return module->forward({std::move(images)}).toTensor();
  };
  model.set_training = [module](bool training) { module->train(training); };
  check_fits_digits(file, model);
  return model;
}

}  // namespace

Model model_of(torch::nn::Module& module) {
  Model model;
  for (const auto& each : module.named_parameters())
    model.parameters.emplace_back(each.key(), each.value());
  for (const auto& each : module.named_buffers()) {
    if (each.value().scalar_type() == torch::kFloat)
      model.buffers.emplace_back(each.key(), each.value());
  }
  for (const auto& each : module.named_modules("", false)) {
    const auto dense = std::dynamic_pointer_cast<DenseImpl>(each.value());
    if (!dense) continue;
    for (std::size_t i = 0; i < model.parameters.size(); ++i) {
      if (model.parameters[i].first == each.key() + ".weight") {
        model.dense.emplace_back(i, dense->trace);
      }
    }
  }
  model.set_training = [&module](bool training) { module.train(training); };
  return model;
}

Model make_model(const std::string& name) {
  std::vector<std::string_view> names;
  for (const BuiltInModel& model : kBuiltInModels) {
    if (model.name == name) return model.make();
    names.push_back(model.name);
  }
  if (!name.ends_with(".pt")) {
    throw Error(fmt::format("there is no model '{}'", name),
                fmt::format("there are {}, and TorchScript files (*.pt)", listed(names)));
  }
  if (!std::filesystem::exists(name)) throw Error(fmt::format("there is no file {}", name));
  return torch_script(name);
}

}  // namespace starling
