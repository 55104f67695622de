// A data set as tensors: images stay bytes until a batch of them is needed.
#pragma once

#include <torch/types.h>

#include <span>
#include <utility>

#include "base/range.h"
#include "train/digit_set.h"

namespace starling {

class Images {
 public:
  explicit Images(DigitSet set);

  std::size_t count() const { return set_.count; }
  std::span<const std::uint8_t> labels() const { return set_.labels; }

  using Batch = std::pair<torch::Tensor, torch::Tensor>;  // normalized images, labels
  Batch pick(std::span<const std::int64_t> indices) const;
  Batch slice(Range range) const;

 private:
  static torch::Tensor normalized(const torch::Tensor& pixels);

  DigitSet set_;
  torch::Tensor pixels_;  // aliases set_
  torch::Tensor labels_;  // set_'s as the 64-bit integers that the loss wants
};

}  // namespace starling
