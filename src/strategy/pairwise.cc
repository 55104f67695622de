// pairwise: after every `period`-th step, w_i <- mean(w_i, w_{i-1}, ..., w_{i-passes}). Each worker
// watches only its nearest neighbours, and yet the whole flock turns as one.
#include "exchange/pairwise.h"

#include "strategy/periodic.h"

namespace starling {

namespace {

class PairwiseStrategy : public PeriodicStrategy {
 public:
  PairwiseStrategy(const Settings& settings, Comm& comm)
      : PeriodicStrategy(settings, comm), passes_(settings.passes) {}

 private:
  Task<> mix(std::span<float> weights, std::uint64_t) override {
    return pairwise_average(comm_, weights_channel(), weights, passes_);
  }

  int passes_;
};

}  // namespace

std::unique_ptr<Strategy> make_pairwise(const Settings& settings, Comm& comm) {
  return std::make_unique<PairwiseStrategy>(settings, comm);
}

}  // namespace starling
