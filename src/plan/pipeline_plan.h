// What a pipeline comes to: the time of a step, the bytes between stages, the memory of each, by
// formula from what the layers take.
#pragma once

#include "topology/cut.h"
#include "topology/pipeline_schedule.h"

namespace starling {

struct PipelineChoice {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int micro_batches = 4;
  bool recompute = false;
  StageLink link = {};
};

struct StagePlan {
  Range layers;
  double forward_seconds = 0;   // for one micro-batch
  double backward_seconds = 0;  // with what is computed again, spread over all micro-batches
  std::uint64_t parameter_bytes = 0;
  std::uint64_t sent_bytes =
      0;                       // in a step: activations, their gradients, those of a tied parameter
  int kept_micro_batches = 0;  // at a time, at the most
  std::uint64_t kept_bytes = 0;  // their activations
};

struct PipelinePlan {
  std::vector<StagePlan> stages;
  std::vector<std::vector<TimedTurn>> timetable;  // of each stage
  double step_seconds = 0;
  double alone_seconds = 0;  // one worker with all layers, for the same micro-batches
  double bubble = 0;         // the share of their time in which stages wait
};

// The costs are those of one micro-batch. `tied_bytes`: of a parameter that the first and the last
// layer share.
PipelinePlan plan_pipeline(std::span<const LayerCost> layers, std::span<const Range> cut,
                           const PipelineChoice& choice, std::uint64_t tied_bytes = 0);

// The bubble if all stages and links took equally long: (p - 1) / (m + p - 1), and 1 - 1/p for the
// naive schedule.
double even_bubble(PipelineSchedule schedule, int stages, int micro_batches);

}  // namespace starling
