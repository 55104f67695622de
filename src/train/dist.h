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

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "job/run_summary.h"
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
  // The same where layers need a session before there is a module: it is of join_launched().
  Dist(std::shared_ptr<Session> session, torch::nn::Module& module)
      : Dist(std::move(session), model_of(module)) {}
  Dist(std::shared_ptr<Session> session, Model model);
  // For the built-in trainer; the session is of join_alike().
  Dist(std::shared_ptr<Session> session, Model model, Settings settings, Workload workload = {});
  Dist(Model model, Settings settings, Job job, Workload workload = {});
  ~Dist();

  // Which copy of the model this worker trains, or has a slice of, and how many there are.
  int rank() { return comm().rank() / settings_.parallel.slices(); }
  int size() const { return settings_.copies(); }

  // One step: brings the gradients together, lets the optimizer update, mixes weights, clears the
  // gradients, each as the strategy has it. With backward_passes = k only every k-th call does
  // that, and returns true; the others let the gradients add up. Before each call there is one
  // backward(): a second one throws Error if it would change gradients that are under way.
  bool step(torch::optim::Optimizer& optimizer);
  // Leaves the mean of all workers' models in each.
  void finish();

  // All workers call these alike, in the same order and between steps.
  double mean(double value);
  std::vector<double> mean(std::vector<double> values);
  // The root's tensor, of any type, in everybody's, which has the same shape.
  void broadcast(torch::Tensor tensor, int root = 0);
  // Nobody leaves before everybody has come.
  void barrier();

  // Deals out the samples 0 to n - 1, to each worker its share, in an order that set_epoch(e) and then
  // reset() shuffle anew. All shares are as long: where n does not divide, a few samples come twice.
  // A torch sampler, so it fits torch's data loaders, too.
  torch::data::samplers::DistributedRandomSampler sampler(std::size_t samples);

  // For workers that do not have the same number of batches: all say so before the first step, and
  // each calls join() when it has run out. It then goes along with the others until all have: where
  // gradients are averaged, it adds none, and the mean is over those who have some; where weights
  // are mixed, its model is mixed as it is. Where nobody waits for it, join() returns at once.
  // Throws Error for systems in which all wait for every worker's gradient at a server or leader,
  // and with several backward passes to a step.
  void expect_uneven_inputs();
  void join(torch::optim::Optimizer& optimizer);

  // What this worker's loop has measured: the run folder, the live page and TensorBoard show what
  // rank 0 tells. With an accuracy it counts as an evaluation, the last of which is the run's.
  struct Metrics {
    std::optional<double> loss = {}, test_loss = {}, accuracy = {}, epoch = {};
  };
  void report(const Metrics& metrics);

  // For the built-in trainer.
  Strategy& strategy() { return *strategy_; }
  // The lowest rank that is left, which speaks for all. Throws CutOff if this one must not.
  bool leads();
  Mesh& comm() { return session_->comm(); }
  // For what they do together beside the strategy: those who train the same slice of the model, those
  // who have the other slices of the same copy, and all.
  Group workers() { return workers_; }
  Group copy() { return copy_; }
  Group everyone() { return everyone_; }
  TcpLoop& loop() { return session_->loop(); }
  FlatModel& model() { return model_; }
  const Settings& settings() const { return settings_; }
  const Job& job() const { return session_->job(); }
  // Drives a task under the job's timeout and counts the time as spent in exchanges, not in
  // computing.
  void run(const char* what, Task<> task);
  // What was computed so far is on the timeline already.
  void note_computed() { computing_since_ = loop().now(); }
  Time exchanging() const { return exchanging_; }
  // The part of it in which this worker moved and reduced bytes; the rest it waited for others.
  Time moving_bytes() const { return moving_bytes_; }
  // What this worker has done so far.
  RankSummary summary();
  // One backward pass of a step is over, and the next one follows.
  void pass_over() { step_->pass_over(); }
  // The sum over all slices of a copy of the model.
  double sum_over_copy(double value);

 private:
  // What goes wrong here is told to the launcher, whoever catches it: by that it knows who failed by
  // itself, and who because of another.
  template <class Action>
  auto telling(const Action& action);
  std::vector<Bucket> make_buckets();
  void watch_backward();
  void gradient_ready(std::size_t parameter);
  void collect(Bucket& bucket);
  bool clips_before_exchange() const;
  void prepare_exchange();
  void clip_gradients();
  double gradient_squares();
  void share_weights();
  void slow_down();
  bool take_step(const std::function<void()>& update);
  int count_with_data(bool has_data);
  void update(torch::optim::Optimizer& optimizer, int with_data);
  void average_over(int workers);
  Task<> hear_finish(int rank);
  Task<> unless_finished_before(Task<> task);
  Task<> until_someone_finished_before();
  void tell_finish();
  Task<> send_finish();
  void report_progress();
  void report_worked();
  Task<> within_timeout(const char* what, Task<> task);
  Task<> timed(const char* what, Task<> task);

  Settings settings_;
  bool own_loop_ = false;  // the user's
  std::shared_ptr<Session> session_;
  Group workers_, copy_, everyone_;
  std::optional<Group> tied_pair_;  // where this stage has a copy of another's parameter
  FlatModel model_;
  std::unique_ptr<Strategy> strategy_;
  std::optional<Step> step_;
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators_;
  std::shared_ptr<Dist*> self_;  // what the hooks look at; they may outlive us
  Time exchanging_{0}, moving_bytes_{0};
  double slowness_ = 1;  // by how much this worker is slowed down on purpose
  Time computing_since_{0};

  Time started_{0}, reported_{0};
  std::uint64_t steps_ = 0;
  std::uint64_t sent_at_start_ = 0;
  std::optional<std::uint64_t> training_bytes_;  // once the training is over
  bool finished_ = false;

  bool uneven_ = false;                        // what the workers have to learn from
  std::vector<std::uint64_t> finished_after_;  // how many steps each worker; kStillAtIt: it has not
  std::optional<Bell> somebody_finished_;
  std::list<Running> hearing_;
  std::optional<Running> traffic_;  // the first to go
};

// Joins a job whose ranks all must have these settings.
std::shared_ptr<Session> join_alike(Job job, const Settings& settings);
// Joins the workers that the launcher has started, as Dist does by itself.
std::shared_ptr<Session> join_launched();
// What it has set for them.
Settings launched_settings(const Job& job);

}  // namespace starling
