#include "plan/pipeline_plan.h"

#include <algorithm>

namespace starling {

namespace {

// Of the activations that come into a stage; the first one's are the batch, which is there anyway.
std::uint64_t input_bytes(std::span<const LayerCost> layers, Range stage) {
  return stage.begin == 0 ? 0 : layers[stage.begin - 1].output_bytes;
}

StagePlan plan_stage(std::span<const LayerCost> layers, Range stage, std::span<const Turn> turns,
                     const PipelineChoice& choice) {
  const auto m = static_cast<std::uint64_t>(choice.micro_batches);
  StagePlan plan{.layers = stage};
  std::uint64_t whole_bytes = input_bytes(layers, stage);  // all that a micro-batch leaves here
  for (std::size_t i = stage.begin; i < stage.end; ++i) {
    plan.forward_seconds += layers[i].forward_seconds;
    plan.backward_seconds += layers[i].backward_seconds;
    plan.parameter_bytes += layers[i].parameter_bytes;
    whole_bytes += layers[i].kept_bytes;
  }
  plan.kept_micro_batches = most_kept(turns);
  const auto kept = static_cast<std::uint64_t>(plan.kept_micro_batches);
  const int again = choice.recompute ? recomputed(turns) : 0;
  if (again > 0) {  // only inputs, and all of the one that is being computed
    plan.backward_seconds += plan.forward_seconds * again / choice.micro_batches;
    plan.kept_bytes = (kept - 1) * input_bytes(layers, stage) + whole_bytes;
  } else {
    plan.kept_bytes = kept * whole_bytes;
  }
  plan.sent_bytes = m * input_bytes(layers, stage);  // back
  if (stage.end < layers.size()) plan.sent_bytes += m * layers[stage.end - 1].output_bytes;
  return plan;
}

}  // namespace

PipelinePlan plan_pipeline(std::span<const LayerCost> layers, std::span<const Range> cut,
                           const PipelineChoice& choice, std::uint64_t tied_bytes) {
  PipelinePlan plan;
  std::vector<StageCost> costs;
  const auto stages = static_cast<int>(cut.size());
  for (int stage = 0; stage < stages; ++stage) {
    const Range range = cut[static_cast<std::size_t>(stage)];
    const std::vector<Turn> turns = turns_of(choice.schedule, stage, stages, choice.micro_batches);
    plan.stages.push_back(plan_stage(layers, range, turns, choice));
    costs.push_back({plan.stages.back().forward_seconds, plan.stages.back().backward_seconds,
                     choice.link.seconds(layers[range.end - 1].output_bytes)});
  }
  if (stages > 1) {  // both ends have a copy, and tell each other its gradient
    plan.stages.back().parameter_bytes += tied_bytes;
    plan.stages.front().sent_bytes += tied_bytes;
    plan.stages.back().sent_bytes += tied_bytes;
  }
  plan.timetable = timetable(choice.schedule, costs, choice.micro_batches);
  for (const std::vector<TimedTurn>& turns : plan.timetable) {
    plan.step_seconds = std::max(plan.step_seconds, turns.back().end);
  }
  for (const LayerCost& layer : layers) {
    plan.alone_seconds += layer.seconds() * choice.micro_batches;
  }
  plan.bubble = bubble(plan.timetable);
  return plan;
}

double even_bubble(PipelineSchedule schedule, int stages, int micro_batches) {
  if (schedule == PipelineSchedule::naive) return 1 - 1.0 / stages;
  return (stages - 1.0) / (micro_batches + stages - 1.0);
}

}  // namespace starling
