// Images as a data set: they stay bytes until a batch of them is needed, and are normalized then.
#pragma once

#include "train/data_set.h"
#include "train/digit_set.h"

namespace starling {

class Images : public DataSet {
 public:
  explicit Images(DigitSet set);

  std::size_t count() const override { return set_.count; }
  Batch pick(std::span<const std::int64_t> samples) const override;
  Batch slice(Range samples) const override;
  std::span<const std::uint8_t> labels() const override { return set_.labels; }

 private:
  torch::Tensor normalized(const torch::Tensor& pixels) const;

  DigitSet set_;
  torch::Tensor pixels_;  // aliases set_
  torch::Tensor labels_;  // set_'s as the 64-bit integers that the loss wants
};

}  // namespace starling
