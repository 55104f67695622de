#include "parallel/tied.h"

#include <array>

#include "exchange/allreduce.h"
#include "strategy/groups.h"

namespace starling {

namespace {

torch::Tensor gradient_of(const Model& stage, const std::string& name) {
  for (const auto& [each, tensor] : stage.parameters) {
    if (each == name) return tensor.grad();
  }
  return {};
}

}  // namespace

// The first layer's copy is in the first stage and the second's in the last.
Task<> add_tied_gradients(Group stages, const Model& stage, const Blueprint::Tie& tie) {
  const int last = stages.size() - 1;
  if (last == 0 || (stages.rank() != 0 && stages.rank() != last)) co_return;
  torch::Tensor gradient = gradient_of(stage, stages.rank() == 0 ? tie.first : tie.second);
  const std::array<int, 2> ends = {stages.in_comm(0), stages.in_comm(last)};
  const Group pair(stages.comm(), ends, static_cast<std::uint32_t>(GroupNumber::tied));
  const std::span<float> values(gradient.data_ptr<float>(),
                                static_cast<std::size_t>(gradient.numel()));
  co_await doubling_allreduce(pair, {0, Purpose::gradients, "adding up a tied gradient"}, values,
                              Reduction::sum);
}

}  // namespace starling
