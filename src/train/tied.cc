#include "train/tied.h"

#include <array>

#include "exchange/allreduce.h"
#include "exchange/collectives.h"
#include "strategy/groups.h"

namespace starling {

Group tied_pair(Group stages) {
  const std::array<int, 2> ends = {stages.in_comm(0), stages.in_comm(stages.size() - 1)};
  return Group(stages.comm(), ends, static_cast<std::uint32_t>(GroupNumber::tied));
}

Task<> add_tied_gradients(Group pair, const Model& stage) {
  torch::Tensor gradient = stage.parameters[stage.tied->parameter].second.grad();
  const std::span<float> values(gradient.data_ptr<float>(),
                                static_cast<std::size_t>(gradient.numel()));
  co_await allreduce(find_allreduce("auto"), pair,
                     {0, Purpose::gradients, "adding up a tied gradient"}, values, Reduction::sum);
}

namespace {

std::span<float> values_of(const torch::Tensor& parameter) {
  return {parameter.data_ptr<float>(), static_cast<std::size_t>(parameter.numel())};
}

}  // namespace

Task<> share_weights(Group parts, std::optional<Group> pair, const Model& slice) {
  constexpr Channel kParts{10, Purpose::weights, "sharing whole parameters"};
  constexpr Channel kTied{1, Purpose::weights, "sharing a tied parameter"};
  for (std::size_t i = 0; i < slice.parameters.size(); ++i) {
    const std::span<float> values = values_of(slice.parameters[i].second);
    if (!slice.slices.contains(i)) co_await broadcast(parts, kParts, values, 0);
    if (pair && slice.tied->parameter == i) co_await broadcast(*pair, kTied, values, 0);
  }
}

}  // namespace starling
