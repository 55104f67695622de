// A network of locally connected layers in the shape of COTS HPC's (Coates et al. 2013, after Le et
// al. 2012), scaled down to images of 28 x 28: `depth` times
//
//   local filters      5 x 5, not shared between places, linear
//   pooling            the root of the sum of squares of 2 x 2 places, which halves the sides
//   local contrast     minus the mean, by the deviation of all channels in 5 x 5 places
//
// Theirs learned without labels, layer by layer; ours has a dense layer at the end and learns as all
// our networks do.
#include <torch/nn/functional/fold.h>
#include <torch/nn/init.h>

#include <cmath>

#include "train/blueprint.h"
#include "train/dense.h"
#include "train/digit_set.h"
#include "train/locally_connected.h"

namespace starling {

using torch::Tensor;

LocallyConnectedImpl::LocallyConnectedImpl(const LocallyConnectedOptions& of) : options(of) {
  const std::int64_t places = of.rows * of.columns;
  const std::int64_t seen = of.in_channels * of.side * of.side;
  weight = register_parameter("weight", torch::empty({places, seen, of.out_channels}));
  bias = register_parameter("bias", torch::zeros({places, of.out_channels}));
  torch::nn::init::normal_(weight, 0, 1 / std::sqrt(static_cast<double>(seen)));
}

Tensor LocallyConnectedImpl::forward(const Tensor& images) {
  const torch::nn::functional::UnfoldFuncOptions windows =
      torch::nn::functional::UnfoldFuncOptions(options.side).padding(options.side / 2);
  // batch x seen x places, to places x batch x seen
  const Tensor seen = torch::nn::functional::unfold(images, windows).permute({2, 0, 1});
  const Tensor values = torch::baddbmm(bias.unsqueeze(1), seen, weight);
  return values.permute({1, 2, 0}).reshape(
      {images.size(0), options.out_channels, options.rows, options.columns});
}

namespace {

constexpr std::int64_t kPool = 2;
constexpr std::int64_t kContrast = 5;  // side of what an activation is compared with

Tensor pooled(const Tensor& x) {
  constexpr double kSmallest = 1e-6;  // a root has no slope at zero
  return torch::sqrt(torch::avg_pool2d(x * x, kPool) * (kPool * kPool) + kSmallest);
}

Tensor contrast_normalized(const Tensor& x) {
  constexpr double kLeast = 0.01;  // where there is no contrast, none is made up
  const auto around = [](const Tensor& values) {
    return torch::avg_pool2d(values.mean(1, true), kContrast, /*stride=*/1,
                             /*padding=*/kContrast / 2,
                             /*ceil_mode=*/false, /*count_include_pad=*/false);
  };
  const Tensor centred = x - around(x);
  return centred / torch::sqrt(around(centred * centred) + kLeast * kLeast);
}

}  // namespace

Blueprint local_net(const NetworkSettings& settings) {
  Blueprint blueprint;
  std::int64_t side = kDigitSide, channels = 1;
  for (int i = 1; i <= settings.depth; ++i) {
    const LocallyConnectedOptions options{channels, settings.channels, side, side};
    const std::string name = "local" + std::to_string(i);
    blueprint.layers.push_back({name, [=](Drawing&) {
                                  LocallyConnected local(options);
                                  return Layer{{{name, local.ptr()}},
                                               [local](const Tensor& x) mutable {
                                                 return contrast_normalized(pooled(local(x)));
                                               }};
                                }});
    side /= kPool;
    channels = settings.channels;
  }
  blueprint.layers.push_back(
      {"head", [=](Drawing&) {
         Dense head(channels * side * side, static_cast<std::int64_t>(kDigitClasses));
         return Layer{{{"head", head.ptr()}},
                      [head](const Tensor& x) mutable { return head(x.flatten(1)); }};
       }});
  return blueprint;
}

}  // namespace starling
