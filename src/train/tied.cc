#include "train/tied.h"

#include <array>

#include "exchange/allreduce.h"
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

}  // namespace starling
