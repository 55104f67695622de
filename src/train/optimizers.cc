#include "train/optimizers.h"

#include <torch/optim.h>

#include <sstream>

namespace starling {

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const OptimizerSettings& settings,
                                                        FlatModel& model) {
  using Kind = OptimizerSettings::Kind;
  using torch::optim::AdamWOptions;
  if (settings.kind == Kind::adamw) {
    const AdamWOptions options = AdamWOptions(settings.lr)
                                     .betas({settings.beta1, settings.beta2})
                                     .weight_decay(settings.weight_decay);
    auto [matrices, others] = model.flat_stretches();
    auto optimizer = std::make_unique<torch::optim::AdamW>(std::move(matrices), options);
    optimizer->add_param_group(
        {std::move(others), std::make_unique<AdamWOptions>(AdamWOptions(options).weight_decay(0))});
    return optimizer;
  }
  const std::vector<torch::Tensor> parameters{model.flat_parameter()};
  if (settings.kind == Kind::adam) {
    return std::make_unique<torch::optim::Adam>(parameters,
                                                torch::optim::AdamOptions(settings.lr)
                                                    .betas({settings.beta1, settings.beta2})
                                                    .weight_decay(settings.weight_decay));
  }
  if (settings.kind == Kind::adagrad) {
    return std::make_unique<torch::optim::Adagrad>(parameters,
                                                   torch::optim::AdagradOptions(settings.lr)
                                                       .initial_accumulator_value(kAdagradStart)
                                                       .weight_decay(settings.weight_decay));
  }
  return std::make_unique<torch::optim::SGD>(parameters,
                                             torch::optim::SGDOptions(settings.lr)
                                                 .momentum(settings.momentum)
                                                 .nesterov(settings.kind == Kind::nesterov)
                                                 .weight_decay(settings.weight_decay));
}

Worker::Memory memory_of(torch::optim::Optimizer& optimizer) {
  Worker::Memory memory;
  memory.save = [&optimizer] {
    torch::serialize::OutputArchive archive;
    optimizer.save(archive);
    std::ostringstream stream;
    archive.save_to(stream);
    const std::string text = stream.str();
    const auto bytes = std::as_bytes(std::span(text));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  memory.restore = [&optimizer](ConstBytes bytes) {
    std::istringstream stream(
        std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    torch::serialize::InputArchive archive;
    archive.load_from(stream);
    optimizer.load(archive);
  };
  return memory;
}

}  // namespace starling
