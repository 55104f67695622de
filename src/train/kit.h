// Kit: what a blueprint has its layers made of. This one leaves them whole. Another (parallel/
// split_kit.h) makes of each this rank's slice, where several ranks share every layer; the text of the
// network is the same.
//
// Layers that are shared come in pairs, with only what looks at one channel at a time between them:
//
//   column   gets what is whole, and gives this rank's share of the outputs
//   row      gets such a share, and gives what is whole, the same on all ranks
//
// Images may be shared by their rows instead: each rank has a *strip*. A strip of all channels becomes
// whole in a row.
//
// Each is made of the whole layer, whose first weights are drawn as always: so a slice has the very
// weights that the whole would have had.
#pragma once

#include <torch/nn/functional/linear.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/normalization.h>

#include <functional>
#include <memory>

#include "train/dense.h"
#include "train/locally_connected.h"

namespace starling {

// A module whose forward takes one tensor and gives one.
struct Unit {
  std::shared_ptr<torch::nn::Module> module;
  std::function<torch::Tensor(const torch::Tensor&)> forward;

  torch::Tensor operator()(const torch::Tensor& x) const { return forward(x); }
};

template <class Holder>
Unit unit_of(Holder module) {
  return {module.ptr(), [module](const torch::Tensor& x) mutable { return module(x); }};
}

class Kit {
 public:
  virtual ~Kit() = default;

  virtual Unit column(Dense whole) const { return unit_of(whole); }
  // So many of its channels belong together.
  virtual Unit column(torch::nn::Conv2d whole, std::int64_t /*grain*/ = 1) const {
    return unit_of(whole);
  }
  // Its outputs are so many stretches, each of which is shared out.
  virtual Unit column(torch::nn::Linear whole, std::int64_t /*stretches*/ = 1) const {
    return unit_of(whole);
  }
  // Its inputs are so many stretches, each of which is shared out, and so many neighbours among them
  // belong to one output of the layer before it.
  virtual Unit row(Dense whole, std::int64_t /*grain*/ = 1, std::int64_t /*stretches*/ = 1) const {
    return unit_of(whole);
  }
  virtual Unit row(torch::nn::Conv2d whole, std::int64_t /*grain*/ = 1) const {
    return unit_of(whole);
  }
  virtual Unit row(torch::nn::Linear whole) const { return unit_of(whole); }

  // Between a column and a row: of the channels that are here, and of activations that are so wide as
  // a whole.
  virtual Unit norm(torch::nn::GroupNorm whole) const { return unit_of(whole); }
  virtual Unit norm(torch::nn::BatchNorm2d whole) const { return unit_of(whole); }
  virtual Unit dropout(torch::nn::Dropout whole, std::int64_t /*width*/) const {
    return unit_of(whole);
  }
  // How many of so many heads of attention are here. Throws Error if they cannot be shared out.
  virtual std::int64_t heads(std::int64_t whole) const { return whole; }

  // Symbols in, whole vectors out.
  virtual Unit embedding(torch::nn::Embedding whole) const { return unit_of(whole); }
  // How well vectors fit each of so many symbols, by the embedding's weight: whole scores.
  using Scores = std::function<torch::Tensor(const torch::Tensor& x, const torch::Tensor& weight)>;
  virtual Scores scores(std::int64_t /*symbols*/) const {
    return [](const torch::Tensor& x, const torch::Tensor& weight) {
      return torch::nn::functional::linear(x, weight);
    };
  }

  using Function = std::function<torch::Tensor(const torch::Tensor&)>;
  // Whole images of so many rows in, this rank's strip of them out.
  virtual Function strip(std::int64_t /*rows*/) const {
    return [](const torch::Tensor& images) { return images; };
  }
  virtual Unit local(LocallyConnected whole) const { return unit_of(whole); }
  // Of a strip of images of so many rows: what makes one row of each `side` rows, and what looks at
  // rows that are at most so far away.
  virtual Function pooling(Function whole, std::int64_t /*rows*/, std::int64_t /*side*/) const {
    return whole;
  }
  virtual Function around(Function whole, std::int64_t /*rows*/, std::int64_t /*reach*/) const {
    return whole;
  }
};

}  // namespace starling
