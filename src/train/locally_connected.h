// A layer whose filters look at a small part of the image each, as a convolution's do, but are not
// shared: every place has filters of its own. So it has many weights and does little with each of
// them, which is why such networks were the first to be split over machines.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <array>

namespace starling {

struct LocallyConnectedOptions {
  std::int64_t in_channels, out_channels;
  std::int64_t rows, columns;  // of the image that comes in, and of the one that goes out
  std::int64_t side = 5;       // of what a filter looks at, around its place; odd
};

struct LocallyConnectedImpl : torch::nn::Module {
  explicit LocallyConnectedImpl(const LocallyConnectedOptions& options);
  // batch x in_channels x rows x columns, to batch x out_channels x rows x columns; beyond its edges
  // an image is zero.
  torch::Tensor forward(const torch::Tensor& images);

  LocallyConnectedOptions options;
  // Of each place, row by row: a matrix of (in_channels x side x side) by out_channels.
  torch::Tensor weight;
  torch::Tensor bias;  // of each place: out_channels
};
TORCH_MODULE(LocallyConnected);

// The same for a part of an image that is padded with so many zeros around it, and the filters of the
// places that have a whole window there.
torch::Tensor connect_locally(const torch::Tensor& images, std::array<std::int64_t, 2> padding,
                              std::int64_t side, const torch::Tensor& weight,
                              const torch::Tensor& bias);

}  // namespace starling
