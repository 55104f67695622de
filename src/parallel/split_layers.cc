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

SplitGroupNormImpl::SplitGroupNormImpl(TensorGroup group, const torch::nn::GroupNorm& whole)
    : GroupNormImpl(*whole) {
  const std::int64_t channels = options.num_channels(), together = channels / options.num_groups();
  const Slice slice = group.slice(0, channels, "groups of channels", 1, together);
  options.num_groups(slice.size_of(group.rank()) / together);
  if (!options.affine()) return;
  slices = {{"weight", slice}, {"bias", slice}};
  weight = register_parameter("weight", slice.take(weight.detach()));
  bias = register_parameter("bias", slice.take(bias.detach()));
}

SplitBatchNorm2dImpl::SplitBatchNorm2dImpl(TensorGroup group, const torch::nn::BatchNorm2d& whole) {
  torch::nn::BatchNorm2dOptions options = whole->options;
  const Slice slice = group.slice(0, options.num_features(), "channels");
  part_ = torch::nn::BatchNorm2d(options.num_features(slice.size_of(group.rank())));
  const torch::NoGradGuard no_gradients;
  if (options.affine()) {
    slices = {{"weight", slice}, {"bias", slice}};
    register_parameter("weight", part_->weight.copy_(slice.take(whole->weight)));
    register_parameter("bias", part_->bias.copy_(slice.take(whole->bias)));
  }
  if (options.track_running_stats()) {
    slices["running_mean"] = slices["running_var"] = slice;
    register_buffer("running_mean", part_->running_mean.copy_(slice.take(whole->running_mean)));
    register_buffer("running_var", part_->running_var.copy_(slice.take(whole->running_var)));
    register_buffer("num_batches_tracked", part_->num_batches_tracked);
  }
}

Tensor SplitBatchNorm2dImpl::forward(const Tensor& x) {
  part_->train(is_training());
  return part_(x);
}

}  // namespace starling
