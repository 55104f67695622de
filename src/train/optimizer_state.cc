#include "train/optimizer_state.h"

#include <torch/optim.h>

#include <type_traits>

#include "base/error.h"

namespace starling {

namespace {

using TorchOptimizer = torch::optim::Optimizer;

// Torch's table of what an optimizer remembers goes by the parameter's address, as text up to 2.0.
template <class Table>
auto key_in(const Table&, const torch::Tensor& parameter) {
  using Key = typename Table::key_type;
  if constexpr (std::is_same_v<Key, std::string>) {
    return c10::guts::to_string(parameter.unsafeGetTensorImpl());
  } else {
    return static_cast<Key>(parameter.unsafeGetTensorImpl());
  }
}

// One that is not there yet is made as long as the parameter.
void visit_tensor(State state, const std::string& name, torch::Tensor& tensor,
                  const torch::Tensor& parameter) {
  bool is_there = tensor.defined();
  state.in("single")(name, is_there);
  if (!is_there) return;
  if (!tensor.defined()) {
    tensor = torch::zeros_like(parameter.detach(), torch::MemoryFormat::Contiguous);
  }
  tensor = tensor.contiguous();
  state(name, std::span(static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()));
}

void visit(torch::optim::SGDParamState& kept, const torch::Tensor& parameter, State state) {
  visit_tensor(state, "momentum", kept.momentum_buffer(), parameter);
}
void visit(torch::optim::AdagradParamState& kept, const torch::Tensor& parameter, State state) {
  state.in("single")("step", kept.step());
  visit_tensor(state, "sum", kept.sum(), parameter);
}
template <class Adam>
void visit(Adam& kept, const torch::Tensor& parameter, State state) {
  state.in("single")("step", kept.step());
  visit_tensor(state, "means", kept.exp_avg(), parameter);
  visit_tensor(state, "squares", kept.exp_avg_sq(), parameter);
  visit_tensor(state, "largest_squares", kept.max_exp_avg_sq(), parameter);
}
void visit(torch::optim::RMSpropParamState& kept, const torch::Tensor& parameter, State state) {
  state.in("single")("step", kept.step());
  visit_tensor(state, "squares", kept.square_avg(), parameter);
  visit_tensor(state, "momentum", kept.momentum_buffer(), parameter);
  visit_tensor(state, "means", kept.grad_avg(), parameter);
}

template <class Kind, class Kept>
bool visit_if(TorchOptimizer& optimizer, State state) {
  if (dynamic_cast<Kind*>(&optimizer) == nullptr) return false;
  std::size_t index = 0;
  for (auto& group : optimizer.param_groups()) {
    for (const torch::Tensor& parameter : group.params()) {
      const State part = state.in(index++);
      const auto key = key_in(optimizer.state(), parameter);
      const auto found = optimizer.state().find(key);
      bool is_known = found != optimizer.state().end();  // before its first step it may not be
      part.in("single")("is_known", is_known);
      if (!is_known) continue;
      if (found == optimizer.state().end()) optimizer.state()[key] = std::make_unique<Kept>();
      visit(static_cast<Kept&>(*optimizer.state()[key]), parameter, part);
    }
  }
  return true;
}

}  // namespace

void visit_state(TorchOptimizer& optimizer, State state) {
  namespace kinds = torch::optim;
  if (visit_if<kinds::SGD, kinds::SGDParamState>(optimizer, state) ||
      visit_if<kinds::Adagrad, kinds::AdagradParamState>(optimizer, state) ||
      visit_if<kinds::AdamW, kinds::AdamWParamState>(optimizer, state) ||
      visit_if<kinds::Adam, kinds::AdamParamState>(optimizer, state) ||
      visit_if<kinds::RMSprop, kinds::RMSpropParamState>(optimizer, state)) {
    return;
  }
  throw Error("what this optimizer remembers is not known, so that it cannot be kept",
              "SGD, Adagrad, Adam, AdamW and RMSprop can");
}

}  // namespace starling
