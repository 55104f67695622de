#include "train/learner.h"

#include "train/loss.h"
#include "train/safetensors.h"

namespace starling {

namespace {

class WholeLearner final : public Learner {
 public:
  explicit WholeLearner(Dist& dist) : model_(dist.model().model()) {}

  std::optional<double> learn(const DataSet::Batch& batch, double weight) override {
    const torch::Tensor loss = cross_entropy(model_.forward(batch.inputs), batch.targets);
    (loss * weight).backward();
    return loss.item<double>();
  }

  torch::Tensor scores(const DataSet::Batch& batch) override {
    const torch::NoGradGuard no_gradients;
    return model_.forward(batch.inputs);
  }

  int who_knows() const override { return 0; }

  void save(const std::filesystem::path& file,
            const std::map<std::string, std::string>& metadata) override {
    std::vector<NamedTensor> tensors;
    for (const std::vector<Model::Named>* each : {&model_.parameters, &model_.buffers}) {
      for (const auto& [name, tensor] : *each) {
        tensors.push_back({name,
                           tensor.sizes().vec(),
                           {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())}});
      }
    }
    write_safetensors(file, tensors, metadata);
  }

 private:
  const Model& model_;
};

class WholeWorkshop final : public Workshop {
 public:
  explicit WholeWorkshop(const Settings& settings) : settings_(settings) {}

  Model make_model(Session&, const DataSets& data) override {
    return starling::make_model(settings_.train, data.classes);
  }
  std::unique_ptr<Learner> make_learner(Dist& dist) override { return whole_learner(dist); }

 private:
  Settings settings_;
};

}  // namespace

std::unique_ptr<Learner> whole_learner(Dist& dist) { return std::make_unique<WholeLearner>(dist); }

std::unique_ptr<Workshop> whole_workshop(const Settings& settings) {
  return std::make_unique<WholeWorkshop>(settings);
}

}  // namespace starling
