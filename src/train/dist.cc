#include "train/dist.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "base/log.h"
#include "runtime/race.h"

namespace starling {

namespace {

Settings settings_from_launcher(const Job& job) {
  Settings settings;
  settings.workers = job.size;
  if (!job.settings.empty()) read_settings(job.settings, "the launcher's settings", settings);
  settings.workers = job.size;
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

Dist::Dist(Model model, Settings settings, Job job)
    : settings_(std::move(settings)), job_(std::move(job)), model_(std::move(model)) {
  start_log(fmt::format("rank {}", job_.rank),
            spdlog::level::from_str(log_level_from_environment()));
  member_.emplace(join(loop_, job_));
  strategy_ = make_strategy(settings_, comm());
  make_buckets();
  watch_backward();
  run("agreeing on the first weights", strategy_->start(model_.replica()));
}

Dist::~Dist() { *self_ = nullptr; }

// From the last parameter to the first, which is about the order in which their gradients become
// known.
void Dist::make_buckets() {
  const std::size_t enough = static_cast<std::size_t>(settings_.bucket_kb) * 1000 / sizeof(float);
  const std::span<float> gradients = model_.replica().gradients;
  std::vector<Range> ranges;
  std::vector<int> counts;
  for (std::size_t i = model_.model().parameters.size(); i-- > 0;) {
    const Range range = model_.range(i);
    if (ranges.empty() || ranges.back().size() >= enough) {
      ranges.push_back(range);
      counts.push_back(0);
    }
    ranges.back().begin = range.begin;
    ++counts.back();
  }
  buckets_ = std::vector<BucketState>(ranges.size());
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    buckets_[i].bucket = {static_cast<int>(i),
                          gradients.subspan(ranges[i].begin, ranges[i].size())};
    buckets_[i].parameters = buckets_[i].missing = counts[i];
  }
}

// The autograd engine tells when a parameter's gradient is there. On the CPU it does so in the
// thread that called backward(), so a bucket's exchange starts right then: the kernel moves its
// bytes while the backward pass goes on, and every further gradient gives the loop a moment. No
// second thread is needed, and none to wait for.
void Dist::watch_backward() {
  self_ = std::make_shared<Dist*>(this);
  if (size() == 1) return;
  std::size_t bucket = 0;
  int placed = 0;
  for (std::size_t i = model_.model().parameters.size(); i-- > 0;) {
    if (placed == buckets_[bucket].parameters) {
      ++bucket;
      placed = 0;
    }
    ++placed;
    auto accumulator = torch::autograd::impl::grad_accumulator(model_.model().parameters[i].second);
    accumulator->add_post_hook(std::make_unique<BackwardHook>([self = self_, bucket] {
      if (*self != nullptr) (*self)->gradient_ready(bucket);
    }));
    accumulators_.push_back(std::move(accumulator));  // autograd itself holds it only weakly
  }
}

void Dist::gradient_ready(std::size_t index) {
  if (!last_pass()) return;
  BucketState& bucket = buckets_[index];
  if (--bucket.missing == 0) {
    model_.reclaim_gradients();
    start(bucket);
  }
  loop_.poll();
}

void Dist::start(BucketState& bucket) {
  bucket.running.emplace(strategy_->after_backward(bucket.bucket));
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
  // A parameter that the loss did not depend on has not been announced; its bucket starts now.
  model_.reclaim_gradients();
  for (BucketState& bucket : buckets_) {
    if (!bucket.running) start(bucket);
  }
  run("the exchange of gradients", all_buckets());
  for (BucketState& bucket : buckets_) {
    bucket.running.reset();
    bucket.missing = bucket.parameters;
  }
  optimizer.step();
  run("the exchange of weights", strategy_->after_update(model_.replica()));
  model_.zero_gradients();
  pass_ = 0;
  return true;
}

void Dist::finish() { run("agreeing on the final model", strategy_->finish(model_.replica())); }

void Dist::run(const char* what, Task<> task) {
  const Time begin = loop_.now();
  loop_.run(within(loop_, begin + job_.timeout, what, std::move(task)));
  waited_ += loop_.now() - begin;
}

}  // namespace starling
