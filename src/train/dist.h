// Dist: distributed training in a training loop of your own.
//
//   MyNet net;
//   starling::Dist dist(net);  // joins the workers that `starling launch` started
//   torch::optim::SGD optimizer(net.parameters(), 0.1);
//   auto sampler = dist.sampler(samples);
//   while (const auto batch = sampler.next(64)) {  // this worker's share of the data
//     loss(net.forward(images), labels).backward();
//     dist.step(optimizer);    // in place of optimizer.step() and zero_grad()
//   }
//   dist.finish();             // all workers now hold the same model
//
// Without a launcher there is one worker, and the loop does what it always did.
#pragma once

#include <torch/data/samplers/distributed.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <memory>
#include <vector>

#include "job/launched.h"
#include "job/worker.h"
#include "train/flat_model.h"

namespace starling {

// The layer for libtorch over Worker (job/worker.h), which has all that a loop does beside steps: means,
// barriers, uneven inputs, reports.
class Dist : public Worker {
 public:
  // The job and its settings come from the launcher, which from here on hears of every exception
  // that ends this worker. All workers begin with rank 0's weights.
  explicit Dist(torch::nn::Module& module);
  // The same where layers need a session before there is a module: it is of join_launched().
  Dist(std::shared_ptr<Session> session, torch::nn::Module& module)
      : Dist(std::move(session), model_of(module)) {}
  Dist(std::shared_ptr<Session> session, Model model);
  // For the built-in trainer; the session is of join_alike().
  Dist(std::shared_ptr<Session> session, Model model, Settings settings, Workload workload = {});
  Dist(Model model, Settings settings, Job job, Workload workload = {});
  ~Dist();

  // As Worker's, with a torch optimizer for the update.
  bool step(torch::optim::Optimizer& optimizer);
  void join(torch::optim::Optimizer& optimizer);

  // The root's tensor, of any type, in everybody's, which has the same shape.
  void broadcast(torch::Tensor tensor, int root = 0);

  // Deals out the samples 0 to n - 1, to each worker its share, in an order that set_epoch(e) and then
  // reset() shuffle anew. All shares are as long: where n does not divide, a few samples come twice.
  // A torch sampler, so it fits torch's data loaders, too.
  torch::data::samplers::DistributedRandomSampler sampler(std::size_t samples);

  // For the built-in trainer.
  FlatModel& model() { return *model_; }

 private:
  Dist(std::shared_ptr<Session> session, std::shared_ptr<FlatModel> model, Settings settings,
       Workload workload, Whose loop);
  void watch_backward();

  std::shared_ptr<FlatModel> model_;
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators_;
  std::shared_ptr<Dist*> self_;  // what the hooks look at; they may outlive us
};

}  // namespace starling
