// How long a pair of wide dense layers takes forward and backward, shared by the workers that were
// launched, each with one thread:
//
//   for n in 1 2; do starling launch -n $n -- build/release/bin/bench-split-layers; done
//
// The batch is the same for any number of workers, so the first run's time over the second's is what
// sharing gains. On a busy machine the processor's time says more than the clock's: it is what a step
// would take at least, if nobody were in the way.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/nn/init.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "job/session.h"
#include "parallel/split_layers.h"

namespace starling {
namespace {

constexpr std::int64_t kWidth = 1024, kInner = 4096;
constexpr int kWarmUp = 3, kRepeats = 20;

void run(std::int64_t batch) {
  at::set_num_threads(1);
  Session session(job_from_environment());
  const TensorGroup group(session.comm());
  torch::manual_seed(1);
  ColumnLinear up(group, torch::nn::Linear(kWidth, kInner));
  RowLinear down(group, torch::nn::Linear(kInner, kWidth));
  const torch::Tensor x = torch::randn({batch, kWidth}).requires_grad_();

  std::vector<double> forward, all, processor;
  for (int i = 0; i < kWarmUp + kRepeats; ++i) {
    const auto now = [] { return std::chrono::steady_clock::now(); };
    const auto milliseconds = [](auto time) {
      return std::chrono::duration<double, std::milli>(time).count();
    };
    const std::clock_t used = std::clock();
    const auto begin = now();
    const torch::Tensor y = down(torch::relu(up(x)));
    const auto middle = now();
    y.sum().backward();
    const auto end = now();
    if (i < kWarmUp) continue;
    forward.push_back(milliseconds(middle - begin));
    all.push_back(milliseconds(end - begin));
    processor.push_back(static_cast<double>(std::clock() - used) * 1e3 / CLOCKS_PER_SEC);
  }
  if (group.rank() != 0) return;
  for (auto* times : {&forward, &all, &processor}) std::ranges::sort(*times);
  fmt::print(
      "{} workers of one thread, {} x {} x {}, batch {}: forward {:.1f} ms, with backward {:.1f} "
      "ms, "
      "fastest {:.1f}; processor {:.1f} ms, least {:.1f} (medians of {})\n",
      group.size(), kWidth, kInner, kWidth, batch, forward[kRepeats / 2], all[kRepeats / 2],
      all.front(), processor[kRepeats / 2], processor.front(), kRepeats);
}

}  // namespace
}  // namespace starling

int main(int count, char** words) { starling::run(count > 1 ? std::atoi(words[1]) : 256); }
