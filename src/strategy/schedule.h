// When a worker mixes: after every period-th step, and then only with some probability; or as often
// as the network lets it while computing takes `ratio` times as long as mixing.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/random.h"
#include "base/state.h"
#include "runtime/clock.h"

namespace starling {

class Schedule {
 public:
  struct Options {
    std::uint64_t period = 1;
    double probability = 1;
    double ratio = 0;  // 0: the period is what it is
  };

  // Workers that wait for each other throw the same coin, so they must be given the same seed.
  Schedule(const Options& options, Random coin) : options_(options), coin_(std::move(coin)) {}

  // Called once a step.
  bool due() {
    if (++since_ < options_.period) return false;
    since_ = 0;
    return options_.probability >= 1 || coin_.uniform() < options_.probability;
  }

  bool adapts() const { return options_.ratio > 0; }
  std::uint64_t period() const { return options_.period; }
  void set_period(std::uint64_t period) { options_.period = period; }

  void visit_state(State state) {
    state("period", options_.period);
    state("since", since_);
    state("coin", coin_);
  }

  // The period that would have kept the ratio, from a round that took `mixing` after
  // `computing` over the last period.
  std::uint64_t better_period(Time computing, Time mixing) const {
    const double step = static_cast<double>(std::max<Time::rep>(1, computing.count())) /
                        static_cast<double>(options_.period);
    const double wanted = options_.ratio * static_cast<double>(mixing.count()) / step;
    // Half of the way: one slow message should not silence everybody for long.
    const double now = static_cast<double>(options_.period);
    return static_cast<std::uint64_t>(std::clamp(std::ceil((now + wanted) / 2), 1.0, 4096.0));
  }

 private:
  Options options_;
  Random coin_;
  std::uint64_t since_ = 0;
};

}  // namespace starling
