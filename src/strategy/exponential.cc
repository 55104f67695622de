// exponential: as pairwise with one pass, but the partner's distance doubles from round to round,
// so that a worker's weights reach everybody in log2 n rounds instead of n.
#include "exchange/pairwise.h"
#include "strategy/periodic.h"

namespace starling {

namespace {

class ExponentialStrategy : public PeriodicStrategy {
 public:
  using PeriodicStrategy::PeriodicStrategy;

 private:
  Task<> mix(std::span<float> weights, std::uint64_t round) override {
    return exponential_average(comm_, weights_channel(), weights, round);
  }
};

}  // namespace

std::unique_ptr<Strategy> make_exponential(const Settings& settings, Comm& comm) {
  return std::make_unique<ExponentialStrategy>(settings, comm);
}

}  // namespace starling
