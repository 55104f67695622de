// Pipeline: a torch::nn::Sequential whose layers live on several workers, in a training loop of your
// own.
//
//   torch::nn::Sequential net(...);  // the same in every worker
//   starling::Pipeline pipeline(net, {images, labels}, torch::nn::functional::cross_entropy);
//   torch::optim::SGD optimizer(pipeline.parameters(), 0.1);  // of the layers that are here
//   auto sampler = pipeline.dist().sampler(samples);
//   while (const auto batch = sampler.next(64)) {  // the same for all stages of a copy
//     pipeline.learn({images, labels});   // in place of forward() and backward()
//     pipeline.step(optimizer);
//   }
//   pipeline.finish();
//
// `starling launch -n 4 --pipeline 2 -- PROGRAM` makes two copies of two stages each, which learn
// together by the strategy that is set; --micro-batches, --pipeline-schedule, --recompute and --stages
// are as in `starling train`. Layers that workers share (parallel/split_layers.h) fit in as well: then
// the session comes first, by join_launched(), and parts_of() it.
#pragma once

#include <torch/nn/modules/container/sequential.h>

#include "parallel/grid_learner.h"
#include "strategy/grid.h"

namespace starling {

class Pipeline {
 public:
  // The example is some samples with their targets, by which the layers' times are measured, and the
  // loss is the mean over samples. Of the layers only those of this worker's stage are used, and
  // remain if the program lets its own `net` go.
  Pipeline(torch::nn::Sequential net, const DataSet::Batch& example, Loss loss);
  Pipeline(std::shared_ptr<Session> session, torch::nn::Sequential net,
           const DataSet::Batch& example, Loss loss);

  // Which copy this worker has a stage of, how many copies there are, and all else beside learning.
  Dist& dist() { return *dist_; }
  int stage() const { return place_.stage; }
  std::vector<torch::Tensor> parameters();

  // Forward and backward of a batch, which all stages of a copy know: the first looks at the inputs,
  // the last at the targets. Returns the mean loss, on the last stage.
  std::optional<double> learn(const DataSet::Batch& batch) { return learner_->learn(batch, 1); }
  bool step(torch::optim::Optimizer& optimizer) { return dist_->step(optimizer); }
  void finish() { dist_->finish(); }

  // Forward alone, out of training, by all stages: the scores, on the last one.
  torch::Tensor scores(const torch::Tensor& inputs);
  // The whole model in one safetensors file, written by the last stage. All of the copy call it.
  void save(const std::filesystem::path& file) { learner_->save(file, {}); }

 private:
  std::shared_ptr<Session> session_;
  Settings settings_;
  Place place_;
  std::optional<Dist> dist_;
  std::unique_ptr<Learner> learner_;
};

// The workers that share the layers of this one's stage, as `--tensor` has it.
TensorGroup parts_of(Session& session);

}  // namespace starling
