#include "parallel/split_layers.h"

namespace starling {

using torch::Tensor;

SplitEmbeddingImpl::SplitEmbeddingImpl(TensorGroup group, const torch::nn::Embedding& whole)
    : EmbeddingImpl(*whole), group_(group) {
  slices["weight"] = group_.slice(0, weight.size(0), "symbols");
  weight = register_parameter("weight", slices["weight"].take(weight.detach()));
}

// Each rank knows the vectors of its own symbols, and adds nothing for those of others.
Tensor SplitEmbeddingImpl::forward(const Tensor& symbols) {
  const Range own = slices["weight"].ranges(group_.rank()).front();
  const Tensor local = symbols - static_cast<std::int64_t>(own.begin);
  const Tensor elsewhere = (local < 0).logical_or(local >= static_cast<std::int64_t>(own.size()));
  const Tensor vectors = EmbeddingImpl::forward(local.masked_fill(elsewhere, 0));
  return group_.sum(vectors.masked_fill(elsewhere.unsqueeze(-1), 0));
}

SplitDropoutImpl::SplitDropoutImpl(TensorGroup group, const torch::nn::Dropout& whole,
                                   std::int64_t width)
    : probability_(whole->options.p()), slice_(group.slice(-1, width, "numbers")) {}

// As torch's own dropout draws its mask.
Tensor SplitDropoutImpl::forward(const Tensor& x) {
  if (!is_training() || probability_ == 0) return x;
  if (probability_ == 1) return x * 0;
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.back() = slice_.size;
  const Tensor mask = torch::empty(sizes, x.options()).bernoulli_(1 - probability_);
  return x * slice_.take(mask).div_(1 - probability_);
}

}  // namespace starling
