// Dist: distributed training in a training loop of your own.
//
//   MyNet net;
//   starling::Dist dist(net);  // joins the workers that `starling launch` started
//   torch::optim::SGD optimizer(net.parameters(), 0.1);
//   for (...) {                // over this worker's share of the data
//     loss(net.forward(images), labels).backward();
//     dist.step(optimizer);    // in place of optimizer.step() and zero_grad()
//   }
//   dist.finish();             // all workers now hold the same model
//
// Without a launcher there is one worker, and the loop does what it always did.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <memory>
#include <optional>
#include <vector>

#include "job/session.h"
#include "strategy/settings.h"
#include "strategy/step.h"
#include "train/flat_model.h"

namespace starling {

class Dist {
 public:
  // The job and its settings come from the launcher, which from here on hears of every exception
  // that ends this worker. All workers begin with rank 0's weights.
  explicit Dist(torch::nn::Module& module);
  Dist(Model model, Settings settings, Job job, Workload workload = {});
  ~Dist();

  int rank() { return comm().rank(); }
  int size() const { return settings_.workers; }

  // One step: brings the gradients together, lets the optimizer update, mixes weights, clears the
  // gradients, each as the strategy has it. With backward_passes = k only every k-th call does
  // that, and returns true; the others let the gradients add up. Before each call there is one
  // backward(): a second one throws Error if it would change gradients that are under way.
  bool step(torch::optim::Optimizer& optimizer);
  // Leaves the mean of all workers' models in each.
  void finish();

  // For the built-in trainer.
  Strategy& strategy() { return *strategy_; }
  // The lowest rank that is left, which speaks for all. Throws CutOff if this one must not.
  bool leads();
  Mesh& comm() { return session_.comm(); }
  // For what they do together beside the strategy.
  Group workers() {
    return Group(comm()).first(size(), static_cast<std::uint32_t>(GroupNumber::control));
  }
  TcpLoop& loop() { return session_.loop(); }
  FlatModel& model() { return model_; }
  const Settings& settings() const { return settings_; }
  const Job& job() const { return session_.job(); }
  // Drives a task under the job's timeout and counts the time as spent in exchanges, not in
  // computing.
  void run(const char* what, Task<> task);
  Time exchanging() const { return exchanging_; }
  // The part of it in which this worker moved and reduced bytes; the rest it waited for others.
  Time moving_bytes() const { return moving_bytes_; }

 private:
  Dist(Model model, const Job& launched);

  // What goes wrong here is told to the launcher, whoever catches it: by that it knows who failed by
  // itself, and who because of another.
  template <class Action>
  auto telling(const Action& action);
  std::vector<Bucket> make_buckets();
  void watch_backward();
  void gradient_ready(std::size_t parameter);
  void collect(Bucket& bucket);
  void slow_down();
  Task<> within_timeout(const char* what, Task<> task);
  Task<> timed(const char* what, Task<> task);

  Settings settings_;
  bool own_loop_ = false;  // the user's
  Session session_;
  FlatModel model_;
  std::unique_ptr<Strategy> strategy_;
  std::optional<Step> step_;
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators_;
  std::shared_ptr<Dist*> self_;  // what the hooks look at; they may outlive us
  Time exchanging_{0}, moving_bytes_{0};
  double slowness_ = 1;  // by how much this worker is slowed down on purpose
  Time computing_since_{0};
};

}  // namespace starling
