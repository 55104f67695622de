#include "strategy/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace starling {

double LrSchedule::share(std::uint64_t step, std::uint64_t steps_per_epoch,
                         std::uint64_t steps) const {
  const auto now = static_cast<double>(step);
  const auto epoch = static_cast<double>(std::max<std::uint64_t>(1, steps_per_epoch));
  const double warm_steps = warmup_epochs * epoch;
  if (now < warm_steps) return std::min(1.0, (now + 1) / warm_steps);
  if (kind == Kind::step) return std::pow(decay, std::floor(now / (step_epochs * epoch)));
  if (kind == Kind::cosine) {
    const double way = (now - warm_steps) / std::max(1.0, static_cast<double>(steps) - warm_steps);
    return end + (1 - end) * (1 + std::cos(std::numbers::pi * std::min(1.0, way))) / 2;
  }
  return 1;
}

}  // namespace starling
