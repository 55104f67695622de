#include "train/dist.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "job/worker_events.h"
#include "runtime/patience.h"
#include "runtime/race.h"
#include "strategy/registry.h"
#include "strategy/server_plan.h"

namespace starling {

namespace {

Settings settings_from_launcher(const Job& job) {
  Settings settings;
  if (!job.settings.empty()) read_settings(job.settings, "the launcher's settings", settings);
  settings.workers = job.size - server_processes(settings);
  check_settings(settings);
  return settings;
}

// As a loop of the user's own joins.
Job launched_job() {
  Job job = job_from_environment();
  report_uncaught(job);
  // The launcher shows lines when they are complete; into a pipe they would come by the page.
  if (job.events_fd >= 0) std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  return job;
}

class BackwardHook : public torch::autograd::FunctionPostHook {
 public:
  explicit BackwardHook(std::function<void()> action) : action_(std::move(action)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    action_();
    return outputs;
  }

 private:
  std::function<void()> action_;
};

}  // namespace

Dist::Dist(torch::nn::Module& module) : Dist(model_of(module), launched_job()) {}

Dist::Dist(Model model, const Job& launched) try
    : Dist(std::move(model), settings_from_launcher(launched), launched) {
  own_loop_ = true;
} catch (const std::exception& error) {
  if (launched.events_fd >= 0) report_error(launched, error);
}

Dist::Dist(Model model, Settings settings, Job job, Workload workload)
    : settings_(std::move(settings)), session_(std::move(job)), model_(std::move(model)) {
  const auto slow = slow_worker(settings_);
  if (slow && slow->who == rank()) slowness_ = slow->factor;
  std::vector<Bucket> buckets = make_buckets();
  workload.buckets = ranges_of(buckets);
  strategy_ = make_strategy(settings_, comm(), std::move(workload));
  step_.emplace(*strategy_, model_.replica(), std::move(buckets), settings_.backward_passes,
                Step::Driver{[this](Bucket& bucket) { collect(bucket); },
                             [this](const char* what, Task<> task) {
                               return within_timeout(what, std::move(task));
                             }});
  watch_backward();
  run("agreeing on the first weights", strategy_->start(model_.replica()));
  // Others may go on without us; they must not wait for us if we end before our time.
  comm().owe_a_finish(survives_losses(settings_));
  report_event(this->job(), {{"event", "joined"}});
}

Dist::~Dist() { *self_ = nullptr; }

template <class Action>
auto Dist::telling(const Action& action) {
  try {
    return action();
  } catch (const std::exception& error) {
    if (own_loop_ && job().events_fd >= 0) report_error(job(), error);
    throw;
  }
}

bool Dist::leads() {
  comm().check_not_cut_off();
  for (int rank = 0; rank < this->rank(); ++rank) {
    if (!comm().is_lost(rank)) return false;
  }
  return true;
}

std::vector<Bucket> Dist::make_buckets() {
  if (settings_.server.factors) {
    for (const auto& [parameter, trace] : model_.model().dense) trace->enabled = true;
  }
  std::vector<Range> parameters;
  for (std::size_t i = 0; i < model_.model().parameters.size(); ++i) {
    parameters.push_back(model_.range(i));
  }
  return starling::make_buckets(model_.replica(), parameters, full_bucket(settings_));
}

// The autograd engine tells when a parameter's gradient is there. On the CPU it does so in the
// thread that called backward(), so a bucket's exchange starts right then: the kernel moves its
// bytes while the backward pass goes on, and every further gradient gives the loop a moment. No
// second thread is needed, and none to wait for.
void Dist::watch_backward() {
  self_ = std::make_shared<Dist*>(this);
  if (size() == 1) return;
  for (std::size_t i = 0; i < model_.model().parameters.size(); ++i) {
    auto accumulator = torch::autograd::impl::grad_accumulator(model_.model().parameters[i].second);
    accumulator->add_post_hook(std::make_unique<BackwardHook>([self = self_, i] {
      if (*self != nullptr) (*self)->gradient_ready(i);
    }));
    accumulators_.push_back(std::move(accumulator));  // autograd itself holds it only weakly
  }
}

void Dist::gradient_ready(std::size_t parameter) {
  step_->gradient_ready(parameter, model_.model().parameters[parameter].first);
  loop().poll();
}

void Dist::collect(Bucket& bucket) {
  model_.reclaim_gradients(bucket.parameters);
  if (!settings_.server.factors)
    return;  // else it is one parameter, perhaps the matrix of a dense layer
  for (const auto& [parameter, trace] : model_.model().dense) {
    if (parameter == bucket.parameters.begin) bucket.factors = trace->factors();
  }
}

// A worker that is to be slow waits after the backward pass for as long as it would then have
// taken.
void Dist::slow_down() {
  if (slowness_ == 1) return;
  const Time computed = loop().now() - computing_since_;
  const Time idle(std::llround(static_cast<double>(computed.count()) * (slowness_ - 1)));
  loop().run(sleep_until(loop(), loop().now() + idle));
}

bool Dist::step(torch::optim::Optimizer& optimizer) {
  if (step_->last_pass()) {
    comm().timeline().add(
        {Timeline::Kind::compute, "forward and backward", computing_since_, loop().now()});
    slow_down();
  }
  const bool taken = telling([&] {
    return loop().run(step_->take([&] {
      const auto updating = comm().record(Timeline::Kind::compute, "optimizer");
      optimizer.step();
    }));
  });
  if (!taken) return false;
  for (const auto& [parameter, trace] : model_.model().dense) trace->forget();
  computing_since_ = loop().now();
  return true;
}

void Dist::finish() {
  // Where nobody waits for anybody, others may still have much to do.
  const char* const what = "agreeing on the final model";
  telling([&] {
    Task<> finish = strategy_->finish(model_.replica());
    loop().run(timed(what, with_patience(comm(), job().timeout, what, std::move(finish))));
  });
  comm().owe_a_finish(false);
}

void Dist::run(const char* what, Task<> task) {
  telling([&] { loop().run(within_timeout(what, std::move(task))); });
  computing_since_ = loop().now();
}

Task<> Dist::within_timeout(const char* what, Task<> task) {
  return timed(what, within(loop(), loop().now() + job().timeout, what, std::move(task)));
}

Task<> Dist::timed(const char* what, Task<> task) {
  const auto waiting = comm().record(Timeline::Kind::wait, what);
  const Time begin = loop().now();
  const Time worked = TcpLoop::processor_time();
  co_await task;
  exchanging_ += loop().now() - begin;
  moving_bytes_ += TcpLoop::processor_time() - worked;
}

}  // namespace starling
