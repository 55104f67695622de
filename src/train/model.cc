#include "train/model.h"

#include <fmt/format.h>
#include <torch/script.h>

#include <filesystem>
#include <memory>
#include <string_view>

#include "base/error.h"
#include "base/names.h"
#include "train/blueprint.h"

namespace starling {

namespace {

using torch::Tensor;

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
  const auto place_in = [](const std::vector<Model::Named>& all,
                           const std::string& name) -> std::optional<std::size_t> {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].first == name) return i;
    }
    return std::nullopt;
  };
  for (const auto& each : module.named_modules("", false)) {
    if (const auto dense = std::dynamic_pointer_cast<DenseImpl>(each.value())) {
      if (const auto at = place_in(model.parameters, each.key() + ".weight")) {
        model.dense.emplace_back(*at, dense->trace);
      }
    }
    if (const auto sliced = std::dynamic_pointer_cast<Sliced>(each.value())) {
      for (const auto& [name, slice] : sliced->slices) {
        const std::string of = each.key() + "." + name;
        if (const auto at = place_in(model.parameters, of)) model.slices.emplace(*at, slice);
        if (const auto at = place_in(model.buffers, of)) model.buffer_slices.emplace(*at, slice);
      }
    }
  }
  model.set_training = [&module](bool training) { module.train(training); };
  return model;
}

Model make_model(const TrainSettings& settings, int classes) {
  const std::string& name = settings.model;
  if (const auto blueprint = find_blueprint(settings, classes)) {
    return make_stage(*blueprint, blueprint->all());
  }
  if (!name.ends_with(".pt")) {
    throw Error(
        fmt::format("there is no model '{}'", name),
        fmt::format("there are {}, and TorchScript files (*.pt)", listed(blueprint_names())));
  }
  if (!std::filesystem::exists(name)) throw Error(fmt::format("there is no file {}", name));
  return torch_script(name);
}

}  // namespace starling
