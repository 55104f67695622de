// Layers that the ranks of a group share, for networks of one's own. Each is made of the whole layer,
// and copies this rank's slice of its weights:
//
//   TensorGroup group(session.comm());
//   ColumnLinear up(group, torch::nn::Linear(256, 1024));    // 1024 / n of its outputs are here
//   RowLinear down(group, torch::nn::Linear(1024, 256));     // and so are its inputs
//   y = down(torch::relu(up(x)));                            // x and y are whole, on every rank
//
// A column and a row after each other need one exchange forward, in the row, and one backward, in the
// column. All ranks draw the same weights if they begin with the same seed (torch::manual_seed).
//
//   ColumnLinear, ColumnConv2d   by output; whole activations in, a share of the outputs out
//   RowLinear, RowConv2d         by input; a share of the inputs in, whole activations out
//   SplitEmbedding               by vocabulary; whole vectors out
//   SplitDropout                 of shares, by the mask that the whole would have had
//   SplitGroupNorm               of shares of whole groups; SplitBatchNorm2d of shares of channels
//
// Attention is shared by heads: a ColumnLinear of three stretches (queries, keys and values), each
// rank's own heads, and a RowLinear. Layers over images can also be shared by rows of the image
// (parallel/strips.h).
#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/normalization.h>

#include "parallel/tensor_group.h"
#include "train/dense.h"

namespace starling {

// A layer that is the copy of a whole one has no parameters registered at first, as torch's Module is
// a virtual base: they stay behind with the whole.

// By output: dimension 0 of a layer's weight and bias.
template <class Whole>
struct ColumnImpl : Whole, Sliced {
  ColumnImpl(TensorGroup group, const torch::nn::ModuleHolder<Whole>& whole,
             std::int64_t stretches = 1, std::int64_t grain = 1)
      : Whole(*whole), group_(group) {
    const Slice slice = group_.slice(0, this->weight.size(0), "outputs", stretches, grain);
    slices["weight"] = slice;
    this->weight = this->register_parameter("weight", slice.take(this->weight.detach()));
    if (!this->bias.defined()) return;
    slices["bias"] = slice;
    this->bias = this->register_parameter("bias", slice.take(this->bias.detach()));
  }
  torch::Tensor forward(const torch::Tensor& x) { return Whole::forward(group_.spread(x)); }

 private:
  TensorGroup group_;
};

// By input: dimension 1 of a layer's weight. The bias is whole, and added to the sum.
template <class Whole>
struct RowImpl : Whole, Sliced {
  RowImpl(TensorGroup group, const torch::nn::ModuleHolder<Whole>& whole, std::int64_t grain = 1,
          std::int64_t stretches = 1)
      : Whole(*whole), group_(group) {
    const Slice slice = group_.slice(1, this->weight.size(1), "inputs", stretches, grain);
    slices["weight"] = slice;
    this->weight = this->register_parameter("weight", slice.take(this->weight.detach()));
    if (!this->bias.defined()) return;
    whole_bias_ = this->register_parameter("bias", this->bias.detach().clone());
    this->bias = torch::Tensor();
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y = group_.sum(Whole::forward(x));
    if (!whole_bias_.defined()) return y;
    std::vector<std::int64_t> shape(static_cast<std::size_t>(this->weight.dim() - 1), 1);
    shape.front() = -1;  // in front of an image's rows and columns
    return y + whole_bias_.view(shape);
  }

 private:
  TensorGroup group_;
  torch::Tensor whole_bias_;
};

using ColumnLinearImpl = ColumnImpl<torch::nn::LinearImpl>;
TORCH_MODULE(ColumnLinear);
using ColumnDenseImpl = ColumnImpl<DenseImpl>;
TORCH_MODULE(ColumnDense);
using ColumnConv2dImpl = ColumnImpl<torch::nn::Conv2dImpl>;
TORCH_MODULE(ColumnConv2d);
using RowLinearImpl = RowImpl<torch::nn::LinearImpl>;
TORCH_MODULE(RowLinear);
using RowDenseImpl = RowImpl<DenseImpl>;
TORCH_MODULE(RowDense);
using RowConv2dImpl = RowImpl<torch::nn::Conv2dImpl>;
TORCH_MODULE(RowConv2d);

struct SplitEmbeddingImpl : torch::nn::EmbeddingImpl, Sliced {
  SplitEmbeddingImpl(TensorGroup group, const torch::nn::Embedding& whole);
  torch::Tensor forward(const torch::Tensor& symbols);

 private:
  TensorGroup group_;
};
TORCH_MODULE(SplitEmbedding);

// The whole is so wide, in its last dimension.
struct SplitDropoutImpl : torch::nn::Module {
  SplitDropoutImpl(TensorGroup group, const torch::nn::Dropout& whole, std::int64_t width);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  double probability_;
  Slice slice_;
};
TORCH_MODULE(SplitDropout);

struct SplitGroupNormImpl : torch::nn::GroupNormImpl, Sliced {
  SplitGroupNormImpl(TensorGroup group, const torch::nn::GroupNorm& whole);
};
TORCH_MODULE(SplitGroupNorm);

struct SplitBatchNorm2dImpl : torch::nn::Module, Sliced {
  SplitBatchNorm2dImpl(TensorGroup group, const torch::nn::BatchNorm2d& whole);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  torch::nn::BatchNorm2d part_{nullptr};  // its parameters and buffers are ours
};
TORCH_MODULE(SplitBatchNorm2d);

}  // namespace starling
