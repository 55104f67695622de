// A residual network for images of 28 x 28, after He et al.'s for small ones: a stem, `depth` blocks
// of two convolutions around which the input goes as it is, and a dense layer over the mean of what
// is left. The blocks are shared out over three sizes: 28 x 28, then 14 x 14 with twice and 7 x 7
// with four times as many channels.
#include <numeric>

#include "train/blueprint.h"
#include "train/dense.h"
#include "train/digit_set.h"

namespace starling {

namespace {

using torch::Tensor;
namespace nn = torch::nn;

// Channels that are normalized together.
std::int64_t normalized_together(NetworkSettings::Norm norm, std::int64_t channels) {
  return norm == NetworkSettings::Norm::batch ? 1 : channels / std::gcd(channels, std::int64_t{8});
}

// Group normalization looks at one image at a time, so that batches of any size, and parts of them,
// come out alike; batch normalization has the mean and deviation of whatever goes through together.
Unit normalization(const Kit& kit, NetworkSettings::Norm norm, std::int64_t channels) {
  if (norm == NetworkSettings::Norm::batch) return kit.norm(nn::BatchNorm2d(channels));
  return kit.norm(nn::GroupNorm(channels / normalized_together(norm, channels), channels));
}

nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t side, std::int64_t stride) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, side).stride(stride).padding(side / 2).bias(false));
}

struct ConvolvedImpl : nn::Module {
  ConvolvedImpl(Unit convolution, Unit normalization)
      : conv(std::move(convolution)), norm(std::move(normalization)) {
    register_module("conv", conv.module);
    register_module("norm", norm.module);
  }
  Tensor forward(const Tensor& x) { return norm(conv(x)); }

  Unit conv, norm;
};
TORCH_MODULE(Convolved);

// That everybody has whole, however wide it is.
Convolved convolved(std::int64_t in, std::int64_t out, std::int64_t side, std::int64_t stride,
                    NetworkSettings::Norm norm) {
  const Kit whole;
  return Convolved(unit_of(convolution(in, out, side, stride)), normalization(whole, norm, out));
}

struct ResidualImpl : nn::Module {
  ResidualImpl(std::int64_t in, std::int64_t out, NetworkSettings::Norm norm, const Kit& kit) {
    const std::int64_t stride = in == out ? 1 : 2;
    const std::int64_t together = normalized_together(norm, out);
    first =
        register_module("first", Convolved(kit.column(convolution(in, out, 3, stride), together),
                                           normalization(kit, norm, out)));
    second = register_module("second", Convolved(kit.row(convolution(out, out, 3, 1), together),
                                                 normalization(Kit(), norm, out)));
    if (in != out) around = register_module("around", convolved(in, out, 1, stride, norm));
  }
  Tensor forward(const Tensor& x) {
    const Tensor change = second(torch::relu(first(x)));
    return torch::relu(change + (around.is_empty() ? x : around(x)));
  }

  Convolved first{nullptr}, second{nullptr}, around{nullptr};
};
TORCH_MODULE(Residual);

}  // namespace

Blueprint resnet(const NetworkSettings& settings) {
  constexpr int kSizes = 3;
  const NetworkSettings::Norm norm = settings.norm;
  Blueprint blueprint;
  blueprint.layers.push_back(
      {"stem", [=](Drawing&) {
         Convolved stem = convolved(1, settings.channels, 3, 1, norm);
         return Layer{{{"stem", stem.ptr()}},
                      [stem](const Tensor& x) mutable { return torch::relu(stem(x)); }};
       }});
  std::int64_t channels = settings.channels;
  for (int i = 0; i < settings.depth; ++i) {
    const std::int64_t in = channels;
    channels = std::int64_t{settings.channels} << (kSizes * i / settings.depth);
    const std::string name = "block" + std::to_string(i + 1);
    blueprint.layers.push_back({name, [=, out = channels](Drawing& drawing) {
                                  Residual block(in, out, norm, drawing.kit);
                                  return Layer{
                                      {{name, block.ptr()}},
                                      [block](const Tensor& x) mutable { return block(x); }};
                                }});
  }
  blueprint.layers.push_back({"head", [=](Drawing&) {
                                Dense head(channels, static_cast<std::int64_t>(kDigitClasses));
                                return Layer{{{"head", head.ptr()}},
                                             [head](const Tensor& x) mutable {
                                               return head(x.mean({2, 3}));
                                             }};
                              }});
  return blueprint;
}

}  // namespace starling
