#include "train/dist.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cmath>

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

Dist::Dist(torch::nn::Module& module)
    : Dist(model_of(module), settings_from_launcher(job_from_environment()),
           job_from_environment()) {}

Dist::Dist(Model model, Settings settings, Job job, Workload workload)
    : settings_(std::move(settings)), session_(std::move(job)), model_(std::move(model)) {
  const auto slow = slow_worker(settings_);
  if (slow && slow->who == rank()) slowness_ = slow->factor;
  workload.buckets = make_buckets();
  strategy_ = make_strategy(settings_, comm(), std::move(workload));
  watch_backward();
  run("agreeing on the first weights", strategy_->start(model_.replica()));
  // Others may go on without us; they must not wait for us if we end before our time.
  comm().owe_a_finish(survives_losses(settings_));
  report_event(this->job(), {{"event", "joined"}});
  computing_since_ = loop().now();
}

Dist::~Dist() { *self_ = nullptr; }

bool Dist::leads() {
  comm().check_not_cut_off();
  for (int rank = 0; rank < this->rank(); ++rank) {
    if (!comm().is_lost(rank)) return false;
  }
  return true;
}

// From the last parameter to the first, which is about the order in which their gradients become
// known.
std::vector<Range> Dist::make_buckets() {
  std::size_t enough = static_cast<std::size_t>(settings_.bucket_kb) * 1000 / sizeof(float);
  if (wants_one_bucket(settings_)) enough = model_.replica().gradients.size();
  if (settings_.server.factors) enough = 0;  // a bucket for each parameter
  const Replica replica = model_.replica();
  std::vector<Range> ranges, parameters;
  for (std::size_t i = model_.model().parameters.size(); i-- > 0;) {
    const Range range = model_.range(i);
    if (ranges.empty() || ranges.back().size() >= enough) {
      ranges.push_back(range);
      parameters.push_back({i, i + 1});
    }
    ranges.back().begin = range.begin;
    parameters.back().begin = i;
  }
  buckets_ = std::vector<BucketState>(ranges.size());
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    buckets_[i].bucket = {static_cast<int>(i), ranges[i],
                          replica.gradients.subspan(ranges[i].begin, ranges[i].size()),
                          replica.weights.subspan(ranges[i].begin, ranges[i].size())};
    buckets_[i].parameters = parameters[i];
    buckets_[i].missing = parameters[i].size();
  }
  has_gradient_.assign(model_.model().parameters.size(), false);
  if (settings_.server.factors) {
    for (const auto& [parameter, trace] : model_.model().dense) {
      buckets_[buckets_.size() - 1 - parameter].dense = trace.get();
      trace->enabled = true;
    }
  }
  return ranges;
}

// The autograd engine tells when a parameter's gradient is there. On the CPU it does so in the
// thread that called backward(), so a bucket's exchange starts right then: the kernel moves its
// bytes while the backward pass goes on, and every further gradient gives the loop a moment. No
// second thread is needed, and none to wait for.
void Dist::watch_backward() {
  self_ = std::make_shared<Dist*>(this);
  if (size() == 1) return;
  for (BucketState& bucket : buckets_) {
    for (std::size_t i = bucket.parameters.begin; i < bucket.parameters.end; ++i) {
      auto accumulator =
          torch::autograd::impl::grad_accumulator(model_.model().parameters[i].second);
      accumulator->add_post_hook(std::make_unique<BackwardHook>([self = self_, &bucket, i] {
        if (*self != nullptr) (*self)->gradient_ready(bucket, i);
      }));
      accumulators_.push_back(std::move(accumulator));  // autograd itself holds it only weakly
    }
  }
}

// A backward pass adds up what a parameter is used for and announces it once, so whoever comes
// again is of another backward(). That does no harm as long as nothing has been sent.
void Dist::gradient_ready(BucketState& bucket, std::size_t parameter) {
  if (last_pass()) {
    if (bucket.running) {
      throw Error(fmt::format("a second backward() in a step changed the gradient of {}, which is "
                              "on its way to the other workers",
                              model_.model().parameters[parameter].first),
                  "add the losses up for one backward(), or call step() after each and set "
                  "--backward-passes");
    }
    if (!has_gradient_[parameter]) --bucket.missing;
    has_gradient_[parameter] = true;
    if (bucket.missing == 0) start(bucket);
  }
  loop().poll();
}

void Dist::start(BucketState& bucket) {
  model_.reclaim_gradients(bucket.parameters);
  bucket.bucket.factors = bucket.dense == nullptr ? std::nullopt : bucket.dense->factors();
  bucket.running.emplace(strategy_->after_backward(bucket.bucket));
}

// A worker that is to be slow waits after the backward pass for as long as it would then have
// taken.
void Dist::slow_down() {
  if (slowness_ == 1) return;
  const Time computed = loop().now() - computing_since_;
  const Time idle(std::llround(static_cast<double>(computed.count()) * (slowness_ - 1)));
  loop().run(sleep_until(loop(), loop().now() + idle));
}

Task<> Dist::all_buckets() {
  for (BucketState& bucket : buckets_) {
    Running& running = *bucket.running;
    co_await running;
  }
}

bool Dist::step(torch::optim::Optimizer& optimizer) {
  if (!last_pass()) {
    ++pass_;
    return false;
  }
  comm().timeline().add(
      {Timeline::Kind::compute, "forward and backward", computing_since_, loop().now()});
  slow_down();
  // A parameter that the loss did not depend on has not been announced; its bucket starts now.
  for (BucketState& bucket : buckets_) {
    if (!bucket.running) start(bucket);
  }
  run("the exchange of gradients", all_buckets());
  for (BucketState& bucket : buckets_) {
    bucket.running.reset();
    bucket.missing = bucket.parameters.size();
    if (bucket.dense != nullptr) bucket.dense->forget();
  }
  has_gradient_.assign(has_gradient_.size(), false);
  if (!strategy_->updates_weights()) {
    const auto updating = comm().record(Timeline::Kind::compute, "optimizer");
    optimizer.step();
  }
  run("the exchange of weights", strategy_->after_update(model_.replica()));
  model_.zero_gradients();
  pass_ = 0;
  computing_since_ = loop().now();
  return true;
}

std::uint64_t Dist::next_batch(std::optional<std::uint64_t> before) {
  std::uint64_t batch = 0;
  run("asking for work", ask_for_batch(before, batch));
  computing_since_ = loop().now();
  return batch;
}

Task<> Dist::ask_for_batch(std::optional<std::uint64_t> before, std::uint64_t& batch) {
  Task<std::uint64_t> next = strategy_->next_batch(before);
  batch = co_await next;
}

void Dist::finish() {
  // Where nobody waits for anybody, others may still have much to do.
  const char* const what = "agreeing on the final model";
  wait(what, with_patience(comm(), job().timeout, what, strategy_->finish(model_.replica())));
  comm().owe_a_finish(false);
}

void Dist::run(const char* what, Task<> task) {
  wait(what, within(loop(), loop().now() + job().timeout, what, std::move(task)));
}

void Dist::wait(const char* what, Task<> task) {
  const auto waiting = comm().record(Timeline::Kind::wait, what);
  const Time begin = loop().now();
  const Time worked = TcpLoop::processor_time();
  loop().run(std::move(task));
  exchanging_ += loop().now() - begin;
  moving_bytes_ += TcpLoop::processor_time() - worked;
}

}  // namespace starling
