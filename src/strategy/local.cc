// local: local SGD; after every `period`-th step all workers take the mean of all.
#include "exchange/pairwise.h"
#include "strategy/periodic.h"

namespace starling {

namespace {

class LocalStrategy : public PeriodicStrategy {
 public:
  using PeriodicStrategy::PeriodicStrategy;

 private:
  Task<> mix(std::span<float> weights, std::uint64_t) override {
    return mean_of_all(comm_, weights_channel(), weights);
  }
};

}  // namespace

std::unique_ptr<Strategy> make_local(const Settings& settings, Comm& comm) {
  return std::make_unique<LocalStrategy>(settings, comm);
}

}  // namespace starling
