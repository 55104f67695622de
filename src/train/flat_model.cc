#include "train/flat_model.h"

#include <fmt/format.h>

#include "base/error.h"

namespace starling {

namespace {

std::span<float> span_of(torch::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

void check(const Model::Named& named) {
  const torch::Tensor& tensor = named.second;
  if (tensor.scalar_type() != torch::kFloat || !tensor.device().is_cpu()) {
    throw Error(fmt::format("{} is not a tensor of 32-bit floats on the CPU", named.first),
                "call model.to(torch::kCPU, torch::kFloat) first");
  }
}

}  // namespace

FlatModel::FlatModel(Model model) : model_(std::move(model)) {
  if (model_.parameters.empty()) throw Error("the model has no parameters to train");
  torch::NoGradGuard no_grad;
  std::size_t parameters = 0, total = 0;
  for (const Model::Named& parameter : model_.parameters) {
    check(parameter);
    const auto size = static_cast<std::size_t>(parameter.second.numel());
    ranges_.push_back({parameters, parameters + size});
    parameters += size;
  }
  total = parameters;
  for (const Model::Named& buffer : model_.buffers) {
    check(buffer);
    total += static_cast<std::size_t>(buffer.second.numel());
  }
  weights_ = torch::empty(static_cast<std::int64_t>(total));
  gradients_ = torch::zeros(static_cast<std::int64_t>(parameters));

  std::int64_t begin = 0;
  const auto move_in = [&](torch::Tensor& tensor) {
    const torch::Tensor view = weights_.narrow(0, begin, tensor.numel()).view(tensor.sizes());
    view.copy_(tensor);
    tensor.set_data(view);
    begin += tensor.numel();
  };
  for (Model::Named& parameter : model_.parameters) move_in(parameter.second);
  for (Model::Named& buffer : model_.buffers) move_in(buffer.second);
  reclaim_gradients({0, ranges_.size()});
}

std::vector<Fold> FlatModel::folds() const {
  std::vector<Fold> folds;
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    const torch::Tensor& parameter = model_.parameters[i].second;
    if (parameter.dim() < 2 || parameter.numel() == 0) continue;
    const auto rows = static_cast<std::size_t>(parameter.size(0));
    folds.push_back({ranges_[i].begin, rows, ranges_[i].size() / rows});
  }
  return folds;
}

Replica FlatModel::replica() { return {span_of(weights_), span_of(gradients_)}; }

torch::Tensor FlatModel::flat_parameter(Range range) {
  const auto begin = static_cast<std::int64_t>(range.begin);
  const auto size = static_cast<std::int64_t>(range.size());
  torch::Tensor parameter = weights_.narrow(0, begin, size);
  parameter.requires_grad_();
  parameter.mutable_grad() = gradients_.narrow(0, begin, size);
  return parameter;
}

torch::Tensor FlatModel::flat_parameter() {
  return flat_parameter({0, static_cast<std::size_t>(gradients_.numel())});
}

FlatModel::Stretches FlatModel::flat_stretches() {
  const auto is_matrix = [this](std::size_t i) { return model_.parameters[i].second.dim() >= 2; };
  Stretches stretches;
  for (std::size_t begin = 0, end = 0; begin < ranges_.size(); begin = end) {
    while (end < ranges_.size() && is_matrix(end) == is_matrix(begin)) ++end;
    (is_matrix(begin) ? stretches.matrices : stretches.others)
        .push_back(flat_parameter({ranges_[begin].begin, ranges_[end - 1].end}));
  }
  return stretches;
}

torch::Tensor FlatModel::gradient_view(std::size_t parameter) {
  const Range range = ranges_[parameter];
  return gradients_
      .narrow(0, static_cast<std::int64_t>(range.begin), static_cast<std::int64_t>(range.size()))
      .view(model_.parameters[parameter].second.sizes());
}

void FlatModel::reclaim_gradients(Range parameters) {
  torch::NoGradGuard no_grad;
  float* const base = gradients_.data_ptr<float>();
  for (std::size_t i = parameters.begin; i < parameters.end; ++i) {
    torch::Tensor& gradient = model_.parameters[i].second.mutable_grad();
    float* const place = base + ranges_[i].begin;
    if (gradient.defined() && gradient.numel() > 0 && gradient.data_ptr<float>() == place) continue;
    torch::Tensor view = gradient_view(i);
    if (gradient.defined()) {
      view.copy_(gradient);
    } else {
      view.zero_();
    }
    gradient = view;
  }
}

}  // namespace starling
