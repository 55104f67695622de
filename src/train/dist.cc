#include "train/dist.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include "base/error.h"
#include "job/worker_events.h"
#include "strategy/grid.h"
#include "train/tied.h"

namespace starling {

namespace {

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

// A module that was there before the session cannot have layers that workers share.
std::shared_ptr<Session> join_with_whole_model() {
  std::shared_ptr<Session> session = join_launched();
  if (launched_settings(session->job()).parallel.slices() > 1) {
    const Error error("this program's model is whole in every worker, and cannot be cut",
                      "leave out --pipeline and --tensor, or use starling::Pipeline");
    if (session->job().events_fd >= 0) report_error(session->job(), error);
    throw error;
  }
  return session;
}

Worker::Layout layout_of(FlatModel& flat, bool is_first_part) {
  const Model& model = flat.model();
  Worker::Layout layout{.replica = flat.replica(), .parameters = {}, .names = {}};
  layout.folds = flat.folds();
  for (std::size_t i = 0; i < model.parameters.size(); ++i) {
    layout.parameters.push_back(flat.range(i));
    layout.names.push_back(model.parameters[i].first);
    if (!model.counts(i, is_first_part)) layout.counted_elsewhere.push_back(flat.range(i));
  }
  return layout;
}

std::optional<Factors> factors_of(const Model& model, std::size_t parameter) {
  for (const auto& [matrix, trace] : model.dense) {
    if (matrix == parameter) return trace->factors();
  }
  return std::nullopt;
}

// Holds the model, too: exchanges that are under way when a worker ends look at its memory.
Worker::Framework framework_of(std::shared_ptr<FlatModel> flat, const Settings& settings,
                               Comm& comm) {
  const Model& model = flat->model();
  std::optional<Group> pair;
  if (model.tied) pair = tied_pair(stage_group(settings, comm));
  Worker::Framework framework;
  framework.collect = [flat](Range parameters) { flat->reclaim_gradients(parameters); };
  framework.factors = [&model](std::size_t parameter) { return factors_of(model, parameter); };
  if (pair) {
    framework.add_tied_gradients = [pair, &model] { return add_tied_gradients(*pair, model); };
  }
  framework.share_weights = [pair, parts = part_group(settings, comm), &model] {
    return share_weights(parts, pair, model);
  };
  return framework;
}

std::shared_ptr<FlatModel> flat_model(Model model, const Settings& settings) {
  if (settings.server.factors) {
    for (const auto& [parameter, trace] : model.dense) trace->enabled = true;
  }
  return std::make_shared<FlatModel>(std::move(model));
}

}  // namespace

Dist::Dist(torch::nn::Module& module) : Dist(join_with_whole_model(), module) {}

Dist::Dist(Model model, Settings settings, Job job, Workload workload)
    : Dist(join_alike(std::move(job), settings), std::move(model), settings, std::move(workload)) {}

Dist::Dist(std::shared_ptr<Session> session, Model model) try
    : Dist(session, flat_model(std::move(model), launched_settings(session->job())),
           launched_settings(session->job()), {}, Whose::user) {
} catch (const std::exception& error) {
  if (session->job().events_fd >= 0) report_error(session->job(), error);
}

Dist::Dist(std::shared_ptr<Session> session, Model model, Settings settings, Workload workload)
    : Dist(std::move(session), flat_model(std::move(model), settings), settings,
           std::move(workload), Whose::trainer) {}

Dist::Dist(std::shared_ptr<Session> session, std::shared_ptr<FlatModel> model, Settings settings,
           Workload workload, Whose loop)
    : Worker(session, settings,
             layout_of(*model, place_of(settings, session->comm().rank()).part == 0),
             framework_of(model, settings, session->comm()), std::move(workload), loop),
      model_(std::move(model)) {
  watch_backward();
}

Dist::~Dist() { *self_ = nullptr; }

// The autograd engine tells when a parameter's gradient is there. On the CPU it does so in the
// thread that called backward(), so a bucket's exchange starts right then: the kernel moves its
// bytes while the backward pass goes on.
void Dist::watch_backward() {
  self_ = std::make_shared<Dist*>(this);
  if (size() == 1 && !is_elastic()) return;
  for (std::size_t i = 0; i < model_->model().parameters.size(); ++i) {
    auto accumulator =
        torch::autograd::impl::grad_accumulator(model_->model().parameters[i].second);
    accumulator->add_post_hook(std::make_unique<BackwardHook>([self = self_, i] {
      if (*self != nullptr) (*self)->gradient_ready(i);
    }));
    accumulators_.push_back(std::move(accumulator));  // autograd itself holds it only weakly
  }
}

bool Dist::step(torch::optim::Optimizer& optimizer) {
  const bool taken = Worker::step([&] { optimizer.step(); });
  if (taken) {
    for (const auto& [parameter, trace] : model_->model().dense) trace->forget();
  }
  return taken;
}

void Dist::join(torch::optim::Optimizer& optimizer) {
  Worker::join([&] { optimizer.step(); });
}

void Dist::broadcast(torch::Tensor tensor, int root) {
  const torch::NoGradGuard no_gradients;
  torch::Tensor flat = tensor.contiguous();
  Worker::broadcast({static_cast<std::byte*>(flat.data_ptr()), flat.nbytes()}, root);
  if (!flat.is_same(tensor)) tensor.copy_(flat);
}

torch::data::samplers::DistributedRandomSampler Dist::sampler(std::size_t samples) {
  return {samples, static_cast<std::size_t>(size()), static_cast<std::size_t>(rank())};
}

}  // namespace starling
