#include "parallel/layer_costs.h"

#include <gtest/gtest.h>

namespace starling {
namespace {

TrainSettings settings_of(const std::string& model) {
  TrainSettings settings;
  settings.model = model;
  if (model == "char-gpt") settings.data = TrainSettings::Data::kjv;
  return settings;
}

std::vector<LayerCost> measured(const TrainSettings& settings, std::int64_t samples) {
  const auto blueprint = find_blueprint(settings, usual_classes(settings));
  return measure_layers(*blueprint, random_batch(settings, samples), mean_cross_entropy, 3);
}

TEST(MeasureLayers, KnowsTimesAndBytesOfEachLayer) {
  const std::vector<LayerCost> layers = measured(settings_of("mlp"), 5);
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[0].name, "fc1");
  EXPECT_EQ(layers[0].parameter_bytes, 4u * (784 * 128 + 128));
  EXPECT_EQ(layers[0].output_bytes, 4u * 5 * 128);
  EXPECT_EQ(layers[1].parameter_bytes, 4u * (128 * 10 + 10));
  EXPECT_EQ(layers[1].output_bytes, 4u * 5 * 10) << "scores, not the loss";
  for (const LayerCost& layer : layers) {
    EXPECT_GT(layer.forward_seconds, 0) << layer.name;
    EXPECT_GT(layer.backward_seconds, 0) << layer.name;
    EXPECT_GE(layer.kept_bytes, layer.output_bytes) << layer.name;
  }
}

TEST(MeasureLayers, CountsWhatABlockKeepsForTheWayBack) {
  TrainSettings settings = settings_of("char-gpt");
  settings.network = {.layers = 1, .width = 16, .heads = 2, .context = 8};
  const std::vector<LayerCost> few = measured(settings, 2), more = measured(settings, 6);
  const std::uint64_t token_bytes = 4 * 16;
  EXPECT_EQ(few[1].output_bytes, 2u * 8 * token_bytes);
  // Query, key and value, the way up and its GELU, norms: many times what goes on.
  EXPECT_GT(few[1].kept_bytes, 10 * few[1].output_bytes);
  EXPECT_NEAR(static_cast<double>(more[1].kept_bytes) / static_cast<double>(few[1].kept_bytes), 3,
              0.2);
  EXPECT_EQ(few[1].parameter_bytes, more[1].parameter_bytes);
  EXPECT_EQ(few[2].parameter_bytes, 2 * token_bytes) << "its matrix is the embedding's";
  EXPECT_EQ(tied_bytes(*find_blueprint(settings, 63)), 63 * token_bytes);
  EXPECT_EQ(tied_bytes(*find_blueprint(settings_of("mlp"), 10)), 0u);
}

TEST(MeasureLayers, MeasuresEveryNetworkThereIs) {
  for (const std::string_view name : blueprint_names()) {
    const TrainSettings settings = settings_of(std::string(name));
    std::uint64_t parameters = 0;
    for (const LayerCost& layer : measured(settings, 2)) parameters += layer.parameter_bytes;
    std::uint64_t whole = 0;
    for (const auto& named : make_model(settings, usual_classes(settings)).parameters) {
      whole += 4 * static_cast<std::uint64_t>(named.second.numel());
    }
    EXPECT_EQ(parameters, whole) << name;
  }
}

}  // namespace
}  // namespace starling
