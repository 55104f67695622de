// Stage: some layers of a network, whose others live on other ranks. Each rank of the group is one
// stage, in order: a pipeline. A batch goes through in micro-batches, so that a stage computes on one
// while others compute on others:
//
//   forward    activations come from the stage before, and go to the stage behind
//   backward   their gradients come from the stage behind, and go to the stage before
//
// in the turns that the schedule says (topology/pipeline_schedule.h). Gradients of parameters add up
// over the micro-batches: after all turns they are those of the whole batch.
//
// - Loss, accuracy and gradients are those of the whole batch, to float rounding. Batch
//   normalization is not: its mean and deviation are of a micro-batch, since that is all a stage has
//   at a time.
// - With `recompute` a stage keeps of a micro-batch only what came in, and computes the rest again
//   before it goes back: less memory for a third more computing.
// - It is no coroutine, as it computes, perhaps with layers that wait by themselves (parallel/
//   tensor_group.h): it waits where it stands.
#pragma once

#include <functional>

#include "parallel/tensor_stream.h"
#include "topology/pipeline_schedule.h"
#include "train/data_set.h"
#include "train/loss.h"
#include "train/model.h"

namespace starling {

class Stage {
 public:
  struct Options {
    PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
    int micro_batches = 4;
    bool recompute = false;
    Loss loss = mean_cross_entropy;
    // Waits until a task is done, with a deadline; `what` names it.
    std::function<void(const char* what, Task<>)> wait = {};
  };
  // The model is this rank's layers; it must outlive the stage.
  Stage(Group stages, const Model& model, Options options);

  bool first() const { return stages_.rank() == 0; }
  bool last() const { return stages_.rank() == stages_.size() - 1; }

  // Forward and backward of a batch, which every stage knows: the first looks at its inputs, the last
  // at its targets. The loss is the mean over all samples, times `weight`. `after_pass` is called
  // after the backward pass of each micro-batch. Returns the mean loss, without the weight, on the
  // last stage.
  double learn(
      const DataSet::Batch& batch, double weight, const std::function<void()>& after_pass = [] {});

  // Forward alone, to evaluate: the scores, on the last stage.
  torch::Tensor forward(const DataSet::Batch& batch);

 private:
  // A micro-batch on its way.
  struct Flight {
    torch::Tensor input, output;
    torch::Tensor random;  // the generator's state before, so that dropout is the same once more
  };

  // The next tensor, when it has come.
  torch::Tensor next(TensorIn& in, const char* from);
  void go_forward(Flight& flight, const DataSet::Batch& micro, double share, bool keeps_all);
  void go_back(Flight& flight, const DataSet::Batch& micro, double share);
  // What this stage makes of its input; on the last one, the loss.
  torch::Tensor compute(const Flight& flight, const DataSet::Batch& micro, double share) const;
  torch::Tensor compute_again(const Flight& flight, const DataSet::Batch& micro, double share);

  Group stages_;
  const Model& model_;
  Options options_;
  const char *before_, *behind_;  // what it takes to wait for those stages
  TensorIn activations_in_, gradients_in_, evaluation_in_;
  TensorOut activations_out_, gradients_out_, evaluation_out_;
};

}  // namespace starling
