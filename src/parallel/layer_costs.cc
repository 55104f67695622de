#include "parallel/layer_costs.h"

#include <c10/core/Allocator.h>

#include <algorithm>

#include "net/tcp_loop.h"
#include "train/digit_set.h"

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

std::uint64_t bytes_of(const Tensor& tensor) {
  return static_cast<std::uint64_t>(tensor.numel()) * tensor.element_size();
}

}  // namespace

// One after the other: no layer is needed any more when the next one is made, so that a network may be
// larger than the memory. What goes from one to the next is cut loose from what made it, as between
// two stages, and the way back begins with a gradient like any other.
std::vector<LayerCost> measure_layers(const Blueprint& blueprint, const DataSet::Batch& micro_batch,
                                      const Loss& loss, int repetitions,
                                      const std::function<void(double share)>& progress) {
  const Kit whole;
  Drawing drawing{whole};
  std::vector<LayerCost> costs;
  Tensor input = micro_batch.inputs;
  for (const Blueprint::Part& part : blueprint.layers) {
    progress(static_cast<double>(costs.size()) / static_cast<double>(blueprint.layers.size()));
    const Layer layer = part.make(drawing);
    const bool is_last = costs.size() + 1 == blueprint.layers.size();
    LayerCost& cost = costs.emplace_back();
    cost.name = part.name;
    for (const auto& [name, module] : layer.parts) {
      for (const Tensor& parameter : module->parameters()) {
        cost.parameter_bytes += bytes_of(parameter);
      }
    }
    Tensor output, scores;
    const auto forward = [&] {
      scores = layer.forward(input);
      output = is_last ? loss(scores, micro_batch.targets) : scores;
    };
    const auto backward = [&] { output.backward(torch::ones_like(output)); };
    {
      const MemoryCount count;
      forward();
      cost.kept_bytes = count.bytes();
      cost.output_bytes = bytes_of(scores);
    }
    backward();  // the first time is longer than all others
    std::vector<double> ahead, back;
    for (int repetition = 0; repetition < repetitions; ++repetition) {
      ahead.push_back(seconds_of(forward));
      back.push_back(seconds_of(backward));
    }
    cost.forward_seconds = median_of(ahead);
    cost.backward_seconds = median_of(back);
    input = scores.detach().requires_grad_();
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
