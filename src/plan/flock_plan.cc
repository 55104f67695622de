#include "plan/flock_plan.h"

#include <algorithm>
#include <array>
#include <ostream>

namespace starling {

using namespace std::chrono_literals;

FlockPlan::FlockPlan(Random random) {
  size = std::array{1, 2, 3, 4, 5, 8}[random.below(6)];
  hosts = size + 2;
  weather.most_delay = std::array<Time, 3>{100us, 5ms, 40ms}[random.below(3)];
  weather.least_delay = weather.most_delay / 4;
  weather.short_share = std::array{0.0, 0.3}[random.below(2)];
  encrypted = random.below(4) == 0;
  same_doors = random.below(2) == 0;
  // Half of them as it was in a cluster where nothing but processes comes and goes.
  std::set<FaultKind> kinds = kAllFaults;
  if (random.below(2) == 0) {
    kinds = {FaultKind::crash, FaultKind::leave, FaultKind::restart, FaultKind::partition};
  }
  add(draw_faults(random.bits(), hosts, kSpan, kinds));
  Faults joins;
  for (std::uint64_t i = random.below(3); i > 0; --i) {
    const int host = size + static_cast<int>(random.below(2));
    joins.restarts.push_back({host, Time(random.below(static_cast<std::uint64_t>(kSpan.count())))});
  }
  add(std::move(joins));
}

void FlockPlan::add(Faults more) {
  const auto append = [](auto& all, const auto& some, const auto& delay) {
    for (auto each : some) {
      delay(each);
      all.push_back(std::move(each));
    }
  };
  const auto at = [](auto& each) { each.at += kBegin; };
  const auto from_until = [](auto& each) {
    each.from += kBegin;
    each.until += kBegin;
  };
  append(faults.crashes, more.crashes, at);
  append(faults.failures, more.failures, at);
  append(faults.leaves, more.leaves, at);
  append(faults.restarts, more.restarts, at);
  append(faults.pauses, more.pauses, from_until);
  append(faults.partitions, more.partitions, from_until);
  append(faults.delays, more.delays, from_until);
  append(faults.slow_links, more.slow_links, from_until);
  append(faults.slow_workers, more.slow_workers, from_until);
  append(faults.drifts, more.drifts, [](auto&) {});
}

std::ostream& operator<<(std::ostream& out, const FlockPlan& plan) {
  return out << plan.size << " hosts, " << (plan.encrypted ? "encrypted, " : "")
             << (plan.same_doors ? "with doors that stay, " : "") << plan.weather << "; "
             << plan.faults;
}

}  // namespace starling
