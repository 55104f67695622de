#include "parallel/stage.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <set>
#include <string>

#include "base/range.h"

namespace starling {

namespace {

constexpr std::uint32_t kForwardChannel = 0, kBackwardChannel = 1, kScoresChannel = 2;

// For errors, and for the timeline, which keeps it for longer than there are stages.
const char* talking_to(int stage) {
  static std::set<std::string> names;
  return names.insert(fmt::format("talking to stage {}", stage)).first->c_str();
}

// The i-th of m micro-batches; the first ones are a sample longer where they cannot all be alike.
DataSet::Batch part_of(const DataSet::Batch& batch, int i, int m) {
  const Range samples = part(static_cast<std::size_t>(batch.targets.size(0)),
                             static_cast<std::size_t>(m), static_cast<std::size_t>(i));
  const auto begin = static_cast<std::int64_t>(samples.begin);
  const auto size = static_cast<std::int64_t>(samples.size());
  return {batch.inputs.narrow(0, begin, size), batch.targets.narrow(0, begin, size)};
}

bool is_empty(const DataSet::Batch& micro) { return micro.targets.size(0) == 0; }

}  // namespace

Stage::Stage(Group stages, const Model& model, Options options)
    : stages_(stages),
      model_(model),
      options_(std::move(options)),
      before_(talking_to(stages.rank() - 1)),
      behind_(talking_to(stages.rank() + 1)),
      activations_in_(stages, stages.ring(stages.rank() - 1),
                      {kForwardChannel, Purpose::activations, before_}),
      gradients_in_(stages, stages.ring(stages.rank() + 1),
                    {kBackwardChannel, Purpose::activations, behind_}),
      evaluation_in_(stages, stages.ring(stages.rank() - 1),
                     {kScoresChannel, Purpose::evaluation, before_}),
      activations_out_(stages, stages.ring(stages.rank() + 1),
                       {kForwardChannel, Purpose::activations, behind_}),
      gradients_out_(stages, stages.ring(stages.rank() - 1),
                     {kBackwardChannel, Purpose::activations, before_}),
      evaluation_out_(stages, stages.ring(stages.rank() + 1),
                      {kScoresChannel, Purpose::evaluation, behind_}) {}

double Stage::learn(const DataSet::Batch& batch, double weight,
                    const std::function<void()>& after_pass) {
  const int m = options_.micro_batches;
  std::vector<DataSet::Batch> micros;
  int full = 0;
  for (int i = 0; i < m; ++i) {
    micros.push_back(part_of(batch, i, m));
    if (!is_empty(micros.back())) ++full;
  }
  if (!first()) activations_in_.expect(full);
  if (!last()) gradients_in_.expect(full);

  // Each micro-batch is a share of the batch, and so is its loss.
  const double of_a_sample = weight / static_cast<double>(batch.targets.size(0));
  std::vector<Flight> flights(micros.size());
  double loss = 0;
  const std::vector<Turn> turns =
      turns_of(options_.schedule, stages_.rank(), stages_.size(), options_.micro_batches);
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const auto which = static_cast<std::size_t>(turns[i].micro_batch);
    const DataSet::Batch& micro = micros[which];
    const double share = of_a_sample * static_cast<double>(micro.targets.size(0));
    Flight& flight = flights[which];
    if (turns[i].kind == Turn::Kind::forward) {
      if (is_empty(micro)) continue;
      const bool back_at_once =
          i + 1 < turns.size() && turns[i + 1] == Turn{Turn::Kind::backward, turns[i].micro_batch};
      go_forward(flight, micro, share, !options_.recompute || back_at_once);
      if (last()) loss += flight.output.item<double>() / weight;
    } else {
      if (!is_empty(micro)) go_back(flight, micro, share);
      flight = Flight();
      after_pass();
    }
  }
  if (!last()) options_.wait(behind_, activations_out_.flush());
  if (!first()) options_.wait(before_, gradients_out_.flush());
  return loss;
}

namespace {

Task<> take_next(TensorIn& in, torch::Tensor& tensor) {
  Task<torch::Tensor> next = in.next();
  tensor = co_await next;
}

}  // namespace

torch::Tensor Stage::next(TensorIn& in, const char* from) {
  torch::Tensor tensor;
  options_.wait(from, take_next(in, tensor));
  return tensor;
}

torch::Tensor Stage::compute(const Flight& flight, const DataSet::Batch& micro,
                             double share) const {
  torch::Tensor output = model_.forward(flight.input);
  return last() ? options_.loss(output, micro.targets) * share : output;
}

void Stage::go_forward(Flight& flight, const DataSet::Batch& micro, double share, bool keeps_all) {
  if (first()) {
    flight.input = micro.inputs;
  } else {
    flight.input = next(activations_in_, before_);
    flight.input.requires_grad_();
  }
  const auto computing = stages_.record(Timeline::Kind::compute, "forward");
  if (!keeps_all) flight.random = at::detail::getDefaultCPUGenerator().get_state();
  {
    const torch::AutoGradMode mode(keeps_all);
    flight.output = compute(flight, micro, share);
  }
  if (!last()) activations_out_.put(flight.output);
  if (!keeps_all && !last()) flight.output = torch::Tensor();
}

// Buffers, such as running means, have taken this micro-batch in already.
torch::Tensor Stage::compute_again(const Flight& flight, const DataSet::Batch& micro,
                                   double share) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const torch::Tensor random_now = generator.get_state();
  std::vector<torch::Tensor> buffers;
  for (const Model::Named& buffer : model_.buffers) buffers.push_back(buffer.second.clone());
  generator.set_state(flight.random);
  torch::Tensor output = compute(flight, micro, share);
  generator.set_state(random_now);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    torch::Tensor(model_.buffers[i].second).copy_(buffers[i]);
  }
  return output;
}

void Stage::go_back(Flight& flight, const DataSet::Batch& micro, double share) {
  torch::Tensor gradient;
  if (!last()) gradient = next(gradients_in_, behind_);
  const auto computing = stages_.record(Timeline::Kind::compute, "backward");
  if (flight.random.defined()) flight.output = compute_again(flight, micro, share);
  flight.output.backward(gradient);
  if (!first()) gradients_out_.put(flight.input.grad());
}

torch::Tensor Stage::forward(const DataSet::Batch& batch) {
  const torch::NoGradGuard no_gradients;
  torch::Tensor values = batch.inputs;
  if (!first()) {
    evaluation_in_.expect(1);
    values = next(evaluation_in_, before_);
  }
  values = model_.forward(values);
  if (!last()) {
    evaluation_out_.put(values);
    options_.wait(behind_, evaluation_out_.flush());
  }
  return values;
}

}  // namespace starling
