// A network of locally connected layers in the shape of COTS HPC's (Coates et al. 2013, after Le et
// al. 2012), scaled down to images of 28 x 28: `depth` times
//
//   local filters      5 x 5, not shared between places, linear
//   pooling            the root of the sum of squares of 2 x 2 places, which halves the sides
//   local contrast     minus the mean, by the deviation of all channels in 5 x 5 places
//
// Theirs learned without labels, layer by layer; ours has a dense layer at the end and learns as all
// our networks do.
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
  return connect_locally(images, {options.side / 2, options.side / 2}, options.side, weight, bias);
}

Tensor connect_locally(const Tensor& images, std::array<std::int64_t, 2> padding, std::int64_t side,
                       const Tensor& weight, const Tensor& bias) {
  // batch x seen x places, to places x batch x seen
  const Tensor seen =
      torch::im2col(images, {side, side}, /*dilation=*/{1, 1}, padding, /*stride=*/{1, 1})
          .permute({2, 0, 1});
  const Tensor values = torch::baddbmm(bias.unsqueeze(1), seen, weight);
  return values.permute({1, 2, 0}).reshape({images.size(0), weight.size(2),
                                            images.size(2) + 2 * padding[0] - side + 1,
                                            images.size(3) + 2 * padding[1] - side + 1});
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
    blueprint.layers.push_back(
        {name, [=](Drawing& drawing) {
           const Kit& kit = drawing.kit;
           const Kit::Function begin =
               i == 1 ? kit.strip(options.rows) : [](Tensor x) { return x; };
           const Unit local = kit.local(LocallyConnected(options));
           const Kit::Function pool = kit.pooling(pooled, options.rows, kPool);
           // Twice as far as a mean looks, as it is one of means.
           const Kit::Function contrast =
               kit.around(contrast_normalized, options.rows / kPool, 2 * (kContrast / 2));
           return Layer{{{name, local.module}},
                        [=](const Tensor& x) { return contrast(pool(local(begin(x)))); }};
         }});
    side /= kPool;
    channels = settings.channels;
  }
  blueprint.layers.push_back(
      {"head", [=](Drawing& drawing) {
         const Dense whole(channels * side * side, static_cast<std::int64_t>(kDigitClasses));
         const Unit head = drawing.kit.row(whole, /*grain=*/side, /*stretches=*/channels);
         return Layer{{{"head", head.module}},
                      [head](const Tensor& x) { return head(x.flatten(1)); }};
       }});
  return blueprint;
}

}  // namespace starling
