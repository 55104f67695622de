// A kit that makes of every layer this rank's slice, for networks that the ranks of a group share.
#pragma once

#include "parallel/tensor_group.h"
#include "train/kit.h"

namespace starling {

class SplitKit final : public Kit {
 public:
  explicit SplitKit(TensorGroup group) : group_(group) {}

  Unit column(Dense whole) const override;
  Unit column(torch::nn::Conv2d whole, std::int64_t grain = 1) const override;
  Unit column(torch::nn::Linear whole, std::int64_t stretches = 1) const override;
  Unit row(Dense whole, std::int64_t grain = 1, std::int64_t stretches = 1) const override;
  Unit row(torch::nn::Conv2d whole, std::int64_t grain = 1) const override;
  Unit row(torch::nn::Linear whole) const override;
  Unit norm(torch::nn::GroupNorm whole) const override;
  Unit norm(torch::nn::BatchNorm2d whole) const override;
  Unit dropout(torch::nn::Dropout whole, std::int64_t width) const override;
  std::int64_t heads(std::int64_t whole) const override;
  Unit embedding(torch::nn::Embedding whole) const override;
  Scores scores(std::int64_t symbols) const override;
  Function strip(std::int64_t rows) const override;
  Unit local(LocallyConnected whole) const override;
  Function pooling(Function whole, std::int64_t rows, std::int64_t side) const override;
  Function around(Function whole, std::int64_t rows, std::int64_t reach) const override;

 private:
  TensorGroup group_;
};

}  // namespace starling
