#include "parallel/split_kit.h"

#include <fmt/format.h>

#include "base/error.h"
#include "parallel/split_layers.h"
#include "parallel/strips.h"

namespace starling {

using torch::Tensor;
namespace nn = torch::nn;

Unit SplitKit::column(Dense whole) const { return unit_of(ColumnDense(group_, whole)); }
Unit SplitKit::column(nn::Conv2d whole, std::int64_t grain) const {
  return unit_of(ColumnConv2d(group_, whole, 1, grain));
}
Unit SplitKit::column(nn::Linear whole, std::int64_t stretches) const {
  return unit_of(ColumnLinear(group_, whole, stretches));
}
Unit SplitKit::row(Dense whole, std::int64_t grain, std::int64_t stretches) const {
  return unit_of(RowDense(group_, whole, grain, stretches));
}
Unit SplitKit::row(nn::Conv2d whole, std::int64_t grain) const {
  return unit_of(RowConv2d(group_, whole, grain));
}
Unit SplitKit::row(nn::Linear whole) const { return unit_of(RowLinear(group_, whole)); }

Unit SplitKit::norm(nn::GroupNorm whole) const { return unit_of(SplitGroupNorm(group_, whole)); }
Unit SplitKit::norm(nn::BatchNorm2d whole) const {
  return unit_of(SplitBatchNorm2d(group_, whole));
}

Unit SplitKit::dropout(nn::Dropout whole, std::int64_t width) const {
  return unit_of(SplitDropout(group_, whole, width));
}

std::int64_t SplitKit::heads(std::int64_t whole) const {
  if (whole % group_.size() != 0) {
    throw Error(fmt::format("{} heads of attention cannot be shared out evenly among {} ranks",
                            whole, group_.size()),
                "choose a number of heads that --tensor divides");
  }
  return whole / group_.size();
}

Unit SplitKit::embedding(nn::Embedding whole) const {
  return unit_of(SplitEmbedding(group_, whole));
}

Kit::Scores SplitKit::scores(std::int64_t symbols) const {
  return [group = group_, slice = group_.slice(-1, symbols, "symbols")](const Tensor& x,
                                                                        const Tensor& weight) {
    return group.gather(nn::functional::linear(group.spread(x), weight), slice);
  };
}

Kit::Function SplitKit::strip(std::int64_t rows) const {
  return [strips = Strips(group_), rows](const Tensor& images) {
    return strips.group().take(images, strips.slice(rows));
  };
}

Unit SplitKit::local(LocallyConnected whole) const {
  return unit_of(StripLocallyConnected(Strips(group_), whole));
}

Kit::Function SplitKit::pooling(Function whole, std::int64_t rows, std::int64_t side) const {
  return [=, strips = Strips(group_)](const Tensor& strip) {
    return whole(strips.seen(strip, rows, {.length = side, .stride = side}));
  };
}

Kit::Function SplitKit::around(Function whole, std::int64_t rows, std::int64_t reach) const {
  return [=, strips = Strips(group_)](const Tensor& strip) {
    return strips.around(whole, strip, rows, reach);
  };
}

}  // namespace starling
