#include <gtest/gtest.h>

#include "tests/train/model_named.h"
#include "train/blueprint.h"
#include "train/locally_connected.h"

namespace starling {
namespace {

using torch::Tensor;

constexpr LocallyConnectedOptions kOdd{
    .in_channels = 2, .out_channels = 3, .rows = 5, .columns = 4, .side = 3};

LocallyConnected in_doubles(const LocallyConnectedOptions& options) {
  LocallyConnected layer(options);
  layer->to(torch::kDouble);
  torch::NoGradGuard no_gradients;
  layer->bias.normal_();
  return layer;
}

// What every place's filters make of the window around it, one product after the other.
Tensor plainly(const LocallyConnectedImpl& layer, const Tensor& images) {
  const LocallyConnectedOptions& of = layer.options;
  const Tensor padded =
      torch::constant_pad_nd(images, {of.side / 2, of.side / 2, of.side / 2, of.side / 2});
  const Tensor result =
      torch::zeros({images.size(0), of.out_channels, of.rows, of.columns}, torch::kDouble);
  for (std::int64_t n = 0; n < images.size(0); ++n) {
    for (std::int64_t o = 0; o < of.out_channels; ++o) {
      for (std::int64_t y = 0; y < of.rows; ++y) {
        for (std::int64_t x = 0; x < of.columns; ++x) {
          const std::int64_t place = y * of.columns + x;
          double sum = layer.bias[place][o].item<double>();
          std::int64_t at = 0;
          for (std::int64_t c = 0; c < of.in_channels; ++c) {
            for (std::int64_t dy = 0; dy < of.side; ++dy) {
              for (std::int64_t dx = 0; dx < of.side; ++dx) {
                sum += padded[n][c][y + dy][x + dx].item<double>() *
                       layer.weight[place][at++][o].item<double>();
              }
            }
          }
          result[n][o][y][x] = sum;
        }
      }
    }
  }
  return result;
}

TEST(LocallyConnected, IsThePlainLoopOverPlacesWithFiltersOfTheirOwn) {
  torch::manual_seed(1);
  LocallyConnected layer = in_doubles(kOdd);
  const Tensor images = torch::randn({2, 2, 5, 4}, torch::kDouble);
  EXPECT_TRUE(torch::allclose(layer(images), plainly(*layer, images)));
}

TEST(LocallyConnected, HasTheGradientsThatDifferencesHave) {
  torch::manual_seed(2);
  LocallyConnected layer = in_doubles(kOdd);
  const Tensor images = torch::randn({2, 2, 5, 4}, torch::kDouble).requires_grad_();
  const Tensor asked = torch::randn({2, 3, 5, 4}, torch::kDouble);
  const auto value = [&] { return (layer(images) * asked).sum(); };
  value().backward();
  constexpr double kStep = 1e-5;
  for (const Tensor& of : {images, layer->weight, layer->bias}) {
    torch::NoGradGuard no_gradients;
    const Tensor flat = of.view(-1), gradient = of.grad().reshape(-1);
    for (std::int64_t i = 0; i < flat.numel(); i += 7) {
      const double before = flat[i].item<double>();
      flat[i] = before + kStep;
      const double above = value().item<double>();
      flat[i] = before - kStep;
      const double below = value().item<double>();
      flat[i] = before;
      EXPECT_NEAR(gradient[i].item<double>(), (above - below) / (2 * kStep), 1e-7) << i;
    }
  }
}

// A picture of twice the contrast is the same picture.
TEST(LocalNet, DoesNotMindContrast) {
  torch::manual_seed(3);
  const Model model = model_named("local-net");
  const Tensor images = torch::randn({2, 1, 28, 28});
  EXPECT_TRUE(torch::allclose(model.forward(images), model.forward(2 * images), 1e-2, 1e-2));
  EXPECT_FALSE(torch::allclose(model.forward(images), model.forward(images.flip(3)), 1e-2, 1e-2));
}

TrainSettings sized(const std::string& model, int depth, int channels) {
  TrainSettings settings;
  settings.model = model;
  settings.network.depth = depth;
  settings.network.channels = channels;
  return settings;
}

std::size_t weights_of(const TrainSettings& settings) {
  std::size_t count = 0;
  for (const auto& named : make_model(settings, 10).parameters) {
    count += static_cast<std::size_t>(named.second.numel());
  }
  return count;
}

TEST(LocalNet, HasAsManyWeightsAsItsPlacesHaveFilters) {
  EXPECT_EQ(weights_of(sized("local-net", 1, 4)), 784u * (25 * 4 + 4) + 14 * 14 * 4 * 10 + 10);
  EXPECT_EQ(weights_of(sized("local-net", 4, 2)),
            784u * (25 * 2 + 2) + (196 + 49 + 9) * (50 * 2 + 2) + 2 * 10 + 10);
}

TEST(Resnet, TakesAnyDepthAndWidthAndNormalization) {
  const Tensor images = torch::randn({3, 1, 28, 28});
  for (const auto norm : {NetworkSettings::Norm::group, NetworkSettings::Norm::batch}) {
    for (int depth : {1, 2, 3, 4, 7}) {
      for (int channels : {1, 6, 8}) {
        TrainSettings settings = sized("resnet", depth, channels);
        settings.network.norm = norm;
        const Model model = make_model(settings, 10);
        EXPECT_EQ(model.forward(images).sizes(), (std::vector<std::int64_t>{3, 10}));
        EXPECT_EQ(model.buffers.empty(), norm == NetworkSettings::Norm::group);
        EXPECT_EQ(find_blueprint(settings, 10)->layers.size(), static_cast<std::size_t>(depth + 2));
      }
    }
  }
}

// Three sizes, whose channels double: by He et al.'s formula for one block each.
TEST(Resnet, HasTheWeightsOfItsSizes) {
  const auto block = [](std::size_t in, std::size_t out) {
    const std::size_t around = in == out ? 0 : in * out + 2 * out;
    return 9 * in * out + 2 * out + 9 * out * out + 2 * out + around;
  };
  EXPECT_EQ(weights_of(sized("resnet", 3, 8)),
            9u * 8 + 2 * 8 + block(8, 8) + block(8, 16) + block(16, 32) + 32 * 10 + 10);
}

// With groups an image's scores are its own affair; with batches they are everybody's.
TEST(Resnet, NormalizesByGroupOrByBatch) {
  torch::manual_seed(4);
  const Tensor images = torch::randn({4, 1, 28, 28});
  for (const auto norm : {NetworkSettings::Norm::group, NetworkSettings::Norm::batch}) {
    TrainSettings settings = sized("resnet", 3, 4);
    settings.network.norm = norm;
    const Model model = make_model(settings, 10);
    const Tensor together = model.forward(images);
    const Tensor apart = model.forward(images.narrow(0, 0, 2));
    EXPECT_EQ(torch::allclose(together.narrow(0, 0, 2), apart, 1e-4, 1e-5),
              norm == NetworkSettings::Norm::group);
  }
}

}  // namespace
}  // namespace starling
