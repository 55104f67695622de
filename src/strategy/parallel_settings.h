// How a model is spread over workers, where it is: between its layers, inside them, or both.
#pragma once

#include <string>

#include "base/setting.h"
#include "topology/pipeline_schedule.h"

namespace starling {

struct ParallelSettings {
  int pipeline = 1;
  int tensor = 1;
  int micro_batches = 4;
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  bool recompute = false;
  std::string stages;

  // On how many workers one copy of the model lives.
  int slices() const { return pipeline * tensor; }

  template <class Self, class Visitor>
  static void visit(Self& s, Visitor&& visit) {
    const Use use{s.pipeline > 1, "pipeline 2 and more"};
    visit({"pipeline", Section::model,
           "cut the model between its layers into so many stages, each on a worker of its own"},
          s.pipeline, 1, 1'024);
    visit({"tensor", Section::model,
           "cut layers themselves into so many parts, each on a worker of its own"},
          s.tensor, 1, 1'024);
    visit({"micro_batches", Section::model,
           "pipeline: in how many pieces a batch goes through the stages", use},
          s.micro_batches, 1, 65'536);
    visit({"pipeline_schedule", Section::model,
           "pipeline: " + names_listed<PipelineSchedule>(" or ") +
               "; 1f1b keeps fewer activations than gpipe",
           use},
          s.schedule);
    visit(
        {"recompute", Section::model,
         "pipeline: keep only a stage's inputs, and compute the rest again before going back", use},
        s.recompute);
    visit({"stages", Section::model,
           "pipeline: which layers each stage has, e.g. 0-1,2-3; empty: by their measured times",
           use},
          s.stages);
  }
};

}  // namespace starling
