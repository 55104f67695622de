#include "train/images.h"

namespace starling {

Images::Images(DigitSet set) : set_(std::move(set)) {
  const auto count = static_cast<std::int64_t>(set_.count);
  pixels_ = torch::from_blob(
      set_.pixels.data(),
      {count, 1, static_cast<std::int64_t>(set_.rows), static_cast<std::int64_t>(set_.cols)},
      torch::kByte);
  labels_ = torch::from_blob(set_.labels.data(), {count}, torch::kByte).to(torch::kLong);
}

torch::Tensor Images::normalized(const torch::Tensor& pixels) const {
  return pixels.to(torch::kFloat).mul_(1 / (255 * set_.deviation)).sub_(set_.mean / set_.deviation);
}

DataSet::Batch Images::pick(std::span<const std::int64_t> samples) const {
  const torch::Tensor which =
      torch::from_blob(const_cast<std::int64_t*>(samples.data()),
                       {static_cast<std::int64_t>(samples.size())}, torch::kLong);
  return {normalized(pixels_.index_select(0, which)), labels_.index_select(0, which)};
}

DataSet::Batch Images::slice(Range samples) const {
  const auto begin = static_cast<std::int64_t>(samples.begin);
  const auto size = static_cast<std::int64_t>(samples.size());
  return {normalized(pixels_.narrow(0, begin, size)), labels_.narrow(0, begin, size)};
}

}  // namespace starling
