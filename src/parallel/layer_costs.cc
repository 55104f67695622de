#include "parallel/layer_costs.h"

#include <c10/core/Allocator.h>

#include <algorithm>

#include "net/tcp_loop.h"
#include "train/digit_set.h"
#include "train/loss.h"

namespace starling {

namespace {

using torch::Tensor;

// Adds up what this thread takes and gives back while it stands.
class MemoryCount {
 public:
  std::uint64_t bytes() const {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(0, count_->bytes));
  }

 private:
  struct Count final : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void*, std::int64_t more, std::int64_t, std::int64_t,
                           c10::Device) override {
      bytes += more;
    }
    bool memoryProfilingEnabled() const override { return true; }
    std::int64_t bytes = 0;
  };
  std::shared_ptr<Count> count_ = std::make_shared<Count>();
  c10::DebugInfoGuard guard_{c10::DebugInfoKind::PROFILER_STATE, count_};
};

double seconds_of(const std::function<void()>& action) {
  const Time begin = TcpLoop::processor_time();
  action();
  return std::chrono::duration<double>(TcpLoop::processor_time() - begin).count();
}

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

std::vector<Layer> made(const Blueprint& blueprint) {
  const Kit whole;
  std::vector<Layer> layers;
  Drawing drawing{whole};
  for (const Blueprint::Part& part : blueprint.layers) layers.push_back(part.make(drawing));
  return layers;
}

std::uint64_t bytes_of(const Tensor& tensor) {
  return static_cast<std::uint64_t>(tensor.numel()) * tensor.element_size();
}

// There and back, each layer by itself: what goes from one to the next is cut loose from what made
// it, as between two stages.
class Passes {
 public:
  Passes(const Blueprint& blueprint, const DataSet::Batch& batch)
      : layers_(made(blueprint)),
        batch_(batch),
        inputs_(layers_.size()),
        outputs_(layers_.size()) {}

  std::size_t size() const { return layers_.size(); }
  const Layer& layer(std::size_t i) const { return layers_[i]; }
  std::uint64_t output_bytes(std::size_t i) const {
    return bytes_of(i == last() ? scores_ : outputs_[i]);
  }

  void forward(std::size_t i) {
    inputs_[i] = i == 0 ? batch_.inputs : outputs_[i - 1].detach().requires_grad_();
    outputs_[i] = layers_[i].forward(inputs_[i]);
    if (i != last()) return;
    scores_ = outputs_[i].detach();
    outputs_[i] = cross_entropy(outputs_[i], batch_.targets);
  }
  void backward(std::size_t i) {
    outputs_[i].backward(i == last() ? Tensor() : inputs_[i + 1].grad());
    outputs_[i] = Tensor();
  }

 private:
  std::size_t last() const { return layers_.size() - 1; }

  std::vector<Layer> layers_;
  const DataSet::Batch& batch_;
  std::vector<Tensor> inputs_, outputs_;
  Tensor scores_;
};

}  // namespace

std::vector<LayerCost> measure_layers(const Blueprint& blueprint, const DataSet::Batch& micro_batch,
                                      int repetitions,
                                      const std::function<void(double share)>& progress) {
  Passes passes(blueprint, micro_batch);
  std::vector<LayerCost> costs(passes.size());
  // The first time is longer than all others; it is for what does not depend on time.
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const MemoryCount count;
    passes.forward(i);
    costs[i].name = blueprint.layers[i].name;
    costs[i].kept_bytes = count.bytes();
    costs[i].output_bytes = passes.output_bytes(i);
    for (const auto& [name, module] : passes.layer(i).parts) {
      for (const Tensor& parameter : module->parameters()) {
        costs[i].parameter_bytes += bytes_of(parameter);
      }
    }
  }
  for (std::size_t i = passes.size(); i-- > 0;) passes.backward(i);

  std::vector<std::vector<double>> forward(passes.size()), backward(passes.size());
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    progress(static_cast<double>(repetition) / repetitions);
    for (std::size_t i = 0; i < passes.size(); ++i) {
      forward[i].push_back(seconds_of([&] { passes.forward(i); }));
    }
    for (std::size_t i = passes.size(); i-- > 0;) {
      backward[i].push_back(seconds_of([&] { passes.backward(i); }));
    }
  }
  for (std::size_t i = 0; i < passes.size(); ++i) {
    costs[i].forward_seconds = median_of(forward[i]);
    costs[i].backward_seconds = median_of(backward[i]);
  }
  return costs;
}

std::uint64_t tied_bytes(const Blueprint& blueprint) {
  if (!blueprint.tie) return 0;
  const Kit whole;
  Drawing drawing{whole};
  for (const Blueprint::Part& part : blueprint.layers) {
    part.make(drawing);
    if (drawing.tied.defined()) return bytes_of(drawing.tied);
  }
  return 0;
}

int usual_classes(const TrainSettings& settings) {
  constexpr int kSymbolsOfKjv = 63;
  return settings.is_text() ? kSymbolsOfKjv : static_cast<int>(kDigitClasses);
}

DataSet::Batch random_batch(const TrainSettings& settings, std::int64_t samples) {
  const int classes = usual_classes(settings);
  if (settings.is_text()) {
    const std::int64_t context = settings.network.context;
    return {torch::randint(classes, {samples, context}, torch::kLong),
            torch::randint(classes, {samples, context}, torch::kLong)};
  }
  constexpr auto kSide = static_cast<std::int64_t>(kDigitSide);
  return {torch::randn({samples, 1, kSide, kSide}),
          torch::randint(classes, {samples}, torch::kLong)};
}

}  // namespace starling
