// A strategy is what a worker does with its replica around a step. Central strategies act on
// gradients between the backward pass and the update; decentral ones act on weights after it. The
// built-in trainer, a user's own loop and the simulator call the same hooks.
#pragma once

#include <memory>
#include <span>

#include "runtime/comm.h"
#include "strategy/settings.h"
#include "topology/split.h"

namespace starling {

// A model as the strategies see it: two flat spans that alias the model's own tensors. The weights
// may be longer than the gradients: behind the parameters stand buffers that are averaged but not
// trained.
struct Replica {
  std::span<float> weights;
  std::span<float> gradients;
};

// A stretch of the gradients that is complete before the rest of the backward pass is.
struct Bucket {
  int index = 0;
  std::span<float> gradients;
};

class Strategy {
 public:
  explicit Strategy(Comm& comm) : comm_(comm) {}
  virtual ~Strategy() = default;

  // Agrees on the first weights: rank 0's.
  virtual Task<> start(Replica replica);
  // Called once a step for every bucket, for several at the same time, while the backward pass goes
  // on.
  virtual Task<> after_backward(Bucket bucket);
  // Called once a step, when the optimizer has changed the weights.
  virtual Task<> after_update(Replica replica);
  // Agrees on the final model: the mean of all.
  virtual Task<> finish(Replica replica);

 protected:
  Channel weights_channel() const { return {kWeightsChannel, Purpose::weights}; }
  Channel bucket_channel(int index) const {
    return {kFirstBucketChannel + static_cast<std::uint32_t>(index), Purpose::gradients};
  }

  Comm& comm_;

 private:
  static constexpr std::uint32_t kWeightsChannel = 1;
  static constexpr std::uint32_t kFirstBucketChannel = 16;
};

// The channels that the training loop uses beside the strategy's.
inline constexpr Channel kControlChannel{0, Purpose::control};
inline constexpr Channel kEvaluationChannel{2, Purpose::evaluation};

std::unique_ptr<Strategy> make_strategy(const Settings& settings, Comm& comm);

// One function a strategy, each in the file of its name.
std::unique_ptr<Strategy> make_allreduce(const Settings& settings, Comm& comm);
std::unique_ptr<Strategy> make_pairwise(const Settings& settings, Comm& comm);
std::unique_ptr<Strategy> make_exponential(const Settings& settings, Comm& comm);
std::unique_ptr<Strategy> make_local(const Settings& settings, Comm& comm);
std::unique_ptr<Strategy> make_single(const Settings& settings, Comm& comm);

}  // namespace starling
