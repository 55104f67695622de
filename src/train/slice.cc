#include "train/slice.h"

#include <torch/nn/module.h>

namespace starling {

std::vector<Range> Slice::ranges(int of) const {
  const auto stretch = static_cast<std::size_t>(size / stretches);
  const auto unit = static_cast<std::size_t>(grain);
  const Range share =
      part(stretch / unit, static_cast<std::size_t>(ranks), static_cast<std::size_t>(of));
  std::vector<Range> found;
  for (std::size_t i = 0; i < static_cast<std::size_t>(stretches); ++i) {
    found.push_back({i * stretch + share.begin * unit, i * stretch + share.end * unit});
  }
  return found;
}

std::int64_t Slice::size_of(int of) const {
  return stretches * static_cast<std::int64_t>(ranges(of).front().size());
}

torch::Tensor Slice::take(const torch::Tensor& whole) const {
  std::vector<torch::Tensor> parts;
  for (const Range& range : ranges(rank)) {
    parts.push_back(whole.narrow(dimension, static_cast<std::int64_t>(range.begin),
                                 static_cast<std::int64_t>(range.size())));
  }
  return torch::cat(parts, dimension);
}

void Slice::put(const torch::Tensor& part, int of, torch::Tensor whole) const {
  std::int64_t at = 0;
  for (const Range& range : ranges(of)) {
    const auto length = static_cast<std::int64_t>(range.size());
    whole.narrow(dimension, static_cast<std::int64_t>(range.begin), length)
        .copy_(part.narrow(dimension, at, length));
    at += length;
  }
}

std::optional<Slice> find_slice(const torch::nn::Module& module, const std::string& parameter) {
  const auto* sliced = dynamic_cast<const Sliced*>(&module);
  if (sliced == nullptr) return std::nullopt;
  const auto found = sliced->slices.find(parameter);
  return found == sliced->slices.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace starling
