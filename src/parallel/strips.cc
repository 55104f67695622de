#include "parallel/strips.h"

#include <algorithm>

#include "base/error.h"

namespace starling {

using torch::Tensor;

namespace {

// Rows from `first` to before `last`, of which some may lie beyond the image.
struct Stretch {
  std::int64_t first, last;

  Range inside(std::int64_t rows) const {
    const std::int64_t begin = std::clamp<std::int64_t>(first, 0, rows);
    return {static_cast<std::size_t>(begin),
            static_cast<std::size_t>(std::clamp<std::int64_t>(last, begin, rows))};
  }
};

Stretch looked_at(const Range& outputs, const Windows& windows) {
  const auto begin = static_cast<std::int64_t>(outputs.begin);
  const auto end = static_cast<std::int64_t>(outputs.end);
  return {begin * windows.stride - windows.padding,
          (end - 1) * windows.stride - windows.padding + windows.length};
}

Range share_of(const Slice& slice, int rank) { return slice.ranges(rank).front(); }

}  // namespace

Tensor Strips::seen(const Tensor& strip, std::int64_t rows, Windows windows) const {
  const Slice inputs = slice(rows), outputs = slice(windows.outputs(rows));
  std::vector<Range> owned, needed;
  for (int rank = 0; rank < group_.size(); ++rank) {
    owned.push_back(share_of(inputs, rank));
    needed.push_back(looked_at(share_of(outputs, rank), windows).inside(rows));
  }
  return group_.fetch(strip, axis_, std::move(owned), std::move(needed));
}

Tensor Strips::padded(const Tensor& strip, std::int64_t rows, Windows windows) const {
  const Slice outputs = slice(windows.outputs(rows));
  const Stretch window = looked_at(share_of(outputs, group_.rank()), windows);
  std::vector<std::int64_t> zeros = {0, 0, 0, 0};  // before and behind, the last dimension first
  const std::size_t at = axis_ == kRows ? 2 : 0;
  zeros[at] = std::max<std::int64_t>(0, -window.first);
  zeros[at + 1] = std::max<std::int64_t>(0, window.last - rows);
  return torch::constant_pad_nd(seen(strip, rows, windows), zeros);
}

Tensor Strips::around(const Kit::Function& function, const Tensor& strip, std::int64_t rows,
                      std::int64_t reach) const {
  const Windows windows{2 * reach + 1, 1, reach};
  const Range own = share_of(slice(rows), group_.rank());
  const std::size_t first = looked_at(own, windows).inside(rows).begin;
  return function(seen(strip, rows, windows))
      .narrow(axis_, static_cast<std::int64_t>(own.begin - first),
              static_cast<std::int64_t>(own.size()));
}

StripConv2dImpl::StripConv2dImpl(Strips strips, const torch::nn::Conv2d& whole, std::int64_t rows)
    : Conv2dImpl(*whole), strips_(strips), rows_(rows), padding_(0) {
  const auto* const numbers = c10::get_if<torch::ExpandingArray<2>>(&options.padding());
  if (numbers == nullptr || !c10::get_if<torch::enumtype::kZeros>(&options.padding_mode())) {
    throw Error("a convolution over strips of an image is padded with zeros",
                "give it a padding of so many on either side");
  }
  padding_ = *numbers;
  weight = register_parameter("weight", weight.detach().clone());
  if (bias.defined()) bias = register_parameter("bias", bias.detach().clone());
}

// Zeros along the axis that is shared are there already.
Tensor StripConv2dImpl::forward(const Tensor& strip) {
  const auto along = static_cast<std::size_t>(strips_.axis() - Strips::kRows);
  const std::int64_t length =
      (*options.dilation())[along] * ((*options.kernel_size())[along] - 1) + 1;
  const Windows windows{length, (*options.stride())[along], (*padding_)[along]};
  torch::ExpandingArray<2> other = padding_;
  (*other)[along] = 0;
  const TensorGroup& group = strips_.group();
  return torch::conv2d(strips_.padded(strip, rows_, windows),
                       group.spread(weight, Purpose::gradients),
                       bias.defined() ? group.spread(bias, Purpose::gradients) : bias,
                       options.stride(), other, options.dilation(), options.groups());
}

// The filters of its places lie row by row.
StripLocallyConnectedImpl::StripLocallyConnectedImpl(Strips strips, const LocallyConnected& whole)
    : strips_(strips), options_(whole->options) {
  const bool by_rows = strips.axis() == Strips::kRows;
  const Slice slice = strips.group().slice(
      0, whole->weight.size(0), by_rows ? "rows of an image" : "columns of an image",
      by_rows ? 1 : options_.rows, by_rows ? options_.columns : 1);
  slices = {{"weight", slice}, {"bias", slice}};
  weight = register_parameter("weight", slice.take(whole->weight.detach()));
  bias = register_parameter("bias", slice.take(whole->bias.detach()));
}

Tensor StripLocallyConnectedImpl::forward(const Tensor& strip) {
  const bool by_rows = strips_.axis() == Strips::kRows;
  const std::int64_t around = options_.side / 2;
  const Tensor padded =
      strips_.padded(strip, by_rows ? options_.rows : options_.columns, {options_.side, 1, around});
  return connect_locally(padded, {by_rows ? 0 : around, by_rows ? around : 0}, options_.side,
                         weight, bias);
}

}  // namespace starling
