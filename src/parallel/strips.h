// Images that ranks share by one of their axes: each has a strip of all images, some rows (or some
// columns) of every channel. A layer that looks at windows needs a few rows of its neighbours'
// strips, the *halo*: they are fetched before the layer computes, and their gradients go back to where
// they came from. So COTS HPC shared its locally connected layers.
//
//   StripConv2d             every rank has all weights, and their gradients add up
//   StripLocallyConnected   every rank has the filters of its own places, and nothing adds up
#pragma once

#include <torch/nn/modules/conv.h>

#include "parallel/tensor_group.h"
#include "train/kit.h"
#include "train/locally_connected.h"

namespace starling {

// Which rows an output looks at: `length` of them, from i * stride - padding on for the i-th.
struct Windows {
  std::int64_t length;
  std::int64_t stride = 1;
  std::int64_t padding = 0;

  std::int64_t outputs(std::int64_t rows) const {
    return (rows + 2 * padding - length) / stride + 1;
  }
};

// All rows below are columns where the axis is that of columns.
class Strips {
 public:
  static constexpr std::int64_t kRows = 2, kColumns = 3;  // dimensions of a batch of images
  explicit Strips(TensorGroup group, std::int64_t axis = kRows) : group_(group), axis_(axis) {}

  const TensorGroup& group() const { return group_; }
  std::int64_t axis() const { return axis_; }

  // How images of so many rows are shared out. Throws Error if there are too few.
  Slice slice(std::int64_t rows) const { return group_.slice(axis_, rows, "rows of an image"); }

  // Of images of so many rows, those that this rank's share of the outputs looks at.
  torch::Tensor seen(const torch::Tensor& strip, std::int64_t rows, Windows windows) const;
  // The same with zeros where windows reach beyond the image.
  torch::Tensor padded(const torch::Tensor& strip, std::int64_t rows, Windows windows) const;
  // What a function makes of this strip if it keeps an image's rows, and looks from each no further
  // than `reach` rows away.
  torch::Tensor around(const Kit::Function& function, const torch::Tensor& strip, std::int64_t rows,
                       std::int64_t reach) const;

 private:
  TensorGroup group_;
  std::int64_t axis_;
};

// Of images of so many rows: strips in, strips out.
struct StripConv2dImpl : torch::nn::Conv2dImpl {
  // Throws Error for a padding other than zeros, so many on either side.
  StripConv2dImpl(Strips strips, const torch::nn::Conv2d& whole, std::int64_t rows);
  torch::Tensor forward(const torch::Tensor& strip);

 private:
  Strips strips_;
  std::int64_t rows_;
  torch::ExpandingArray<2> padding_;
};
TORCH_MODULE(StripConv2d);

struct StripLocallyConnectedImpl : torch::nn::Module, Sliced {
  StripLocallyConnectedImpl(Strips strips, const LocallyConnected& whole);
  torch::Tensor forward(const torch::Tensor& strip);

  torch::Tensor weight, bias;

 private:
  Strips strips_;
  LocallyConnectedOptions options_;
};
TORCH_MODULE(StripLocallyConnected);

}  // namespace starling
