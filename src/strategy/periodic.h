// What the decentral strategies share: they mix weights after every `period`-th local step.
#pragma once

#include "strategy/strategy.h"

namespace starling {

class PeriodicStrategy : public Strategy {
 public:
  PeriodicStrategy(const Settings& settings, Comm& comm)
      : Strategy(comm), period_(static_cast<std::uint64_t>(settings.period)) {}

  Task<> after_update(Replica replica) final {
    if (++steps_ % period_ != 0) co_return;
    co_await mix(replica.weights, steps_ / period_ - 1);
  }

 protected:
  // round counts 0, 1, 2 ...
  virtual Task<> mix(std::span<float> weights, std::uint64_t round) = 0;

 private:
  std::uint64_t period_;
  std::uint64_t steps_ = 0;
};

}  // namespace starling
