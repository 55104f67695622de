#include "parallel/pipeline.h"

#include "job/worker_events.h"

namespace starling {

namespace {

// Layers that are there already, by the names that they have in the whole.
Blueprint blueprint_of(torch::nn::Sequential& net) {
  Blueprint blueprint;
  for (std::size_t i = 0; i < net->size(); ++i) {
    const std::string name = std::to_string(i);
    auto module = *(net->begin() + static_cast<std::ptrdiff_t>(i));
    blueprint.layers.push_back(
        {name, [name, module](Drawing&) {
           return Layer{{{name, module.ptr()}},
                        [module](torch::Tensor x) mutable { return module.forward(std::move(x)); }};
         }});
  }
  return blueprint;
}

}  // namespace

TensorGroup parts_of(Session& session) {
  return TensorGroup(part_group(launched_settings(session.job()), session.comm()),
                     session.job().timeout);
}

Pipeline::Pipeline(torch::nn::Sequential net, const DataSet::Batch& example, Loss loss)
    : Pipeline(join_launched(), std::move(net), example, std::move(loss)) {}

Pipeline::Pipeline(std::shared_ptr<Session> session, torch::nn::Sequential net,
                   const DataSet::Batch& example, Loss loss)
    : session_(std::move(session)),
      settings_(launched_settings(session_->job())),
      place_(place_of(settings_, session_->comm().rank())) {
  const Blueprint blueprint = blueprint_of(net);
  std::vector<Range> cut;
  try {
    cut = agree_on_cut(settings_, *session_, blueprint, example, loss);
  } catch (const std::exception& error) {  // the launcher hears of it, whoever catches it
    if (session_->job().events_fd >= 0) report_error(session_->job(), error);
    throw;
  }
  dist_.emplace(session_, make_stage(blueprint, cut[static_cast<std::size_t>(place_.stage)]));
  learner_ = grid_learner(*dist_, settings_, parts_of(*session_), std::move(loss));
}

std::vector<torch::Tensor> Pipeline::parameters() {
  std::vector<torch::Tensor> parameters;
  for (const auto& named : dist_->model().model().parameters) parameters.push_back(named.second);
  return parameters;
}

torch::Tensor Pipeline::scores(const torch::Tensor& inputs) {
  const Model& model = dist_->model().model();
  model.set_training(false);
  const torch::Tensor scores = learner_->scores({inputs, {}});
  model.set_training(true);
  return scores;
}

}  // namespace starling
