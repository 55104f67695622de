#include "train/blueprint.h"

namespace starling {

Model make_stage(const Blueprint& blueprint, Range layers, const Kit& kit) {
  auto root = std::make_shared<torch::nn::Module>();
  std::vector<std::function<torch::Tensor(torch::Tensor)>> steps;
  Drawing drawing{kit};
  for (std::size_t i = 0; i < layers.end; ++i) {
    const bool here = i >= layers.begin;
    const bool tied_before = drawing.tied.defined();
    const Layer layer = blueprint.layers[i].make(drawing);
    if (drawing.tied.defined() && !tied_before) drawing.tied_is_here = here;
    if (!here) continue;
    for (const auto& [name, module] : layer.parts) root->register_module(name, module);
    steps.push_back(layer.forward);
  }
  Model model = model_of(*root);
  if (blueprint.tie && layers.size() < blueprint.layers.size()) {
    for (std::size_t i = 0; i < model.parameters.size(); ++i) {
      const std::string& name = model.parameters[i].first;
      const bool is_second = name == blueprint.tie->second;
      if (is_second || name == blueprint.tie->first) model.tied = {i, is_second};
    }
  }
  model.forward = [root, steps = std::move(steps)](torch::Tensor values) {
    for (const auto& step : steps) values = step(std::move(values));
    return values;
  };
  return model;
}

namespace {

struct Row {
  std::string_view name;
  Blueprint (*make)(const NetworkSettings& settings, int classes);
};
constexpr Row kBlueprints[] = {
    {"mnist-cnn", [](const NetworkSettings&, int) { return mnist_cnn(); }},
    {"cnn3", [](const NetworkSettings&, int) { return cnn3(); }},
    {"mlp", [](const NetworkSettings&, int) { return mlp(); }},
    {"resnet", [](const NetworkSettings& settings, int) { return resnet(settings); }},
    {"local-net", [](const NetworkSettings& settings, int) { return local_net(settings); }},
    {"char-gpt", char_gpt},
};

}  // namespace

std::optional<Blueprint> find_blueprint(const TrainSettings& settings, int classes) {
  for (const Row& row : kBlueprints) {
    if (row.name == settings.model) return row.make(settings.network, classes);
  }
  return std::nullopt;
}

std::vector<std::string_view> blueprint_names() {
  std::vector<std::string_view> names;
  for (const Row& row : kBlueprints) names.push_back(row.name);
  return names;
}

}  // namespace starling
