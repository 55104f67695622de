#include "server/clerk.h"

#include <algorithm>
#include <cmath>

namespace starling {

Clerk::Clerk(Loop& loop, const Options& options, int workers)
    : options_(options), workers_(static_cast<std::size_t>(workers)), changed_(loop) {}

Task<std::uint64_t> Clerk::next(int worker) {
  Worker& asking = workers_[static_cast<std::size_t>(worker)];
  const auto own = static_cast<std::uint64_t>(worker);
  std::uint64_t unit = asking.last == kNoMore ? own : asking.last + workers_.size();
  if (options_.mode == Mode::whoever_is_free) {
    unit = free_unit();
  } else if (options_.mode == Mode::own_share) {
    if (asking.last != kNoMore) unit = own_after(asking.last, own);
  } else if (options_.mode == Mode::until_share) {
    if (asking.last != kNoMore && epoch_of(asking.last) == epoch_) ++epoch_done_;
    asking.waits = epoch_of(unit) > epoch_;
    end_epoch_if_over();
    while (asking.waits && !stopped_) co_await changed_.rung();
    asking.waits = false;
    if (epoch_of(unit) < epoch_) {  // it ended without us
      unit = epoch_ * plan_.units_per_epoch + own;
    }
  }
  asking.last = unit;
  co_return stopped_ || unit >= plan_.units ? kNoMore : unit;
}

// Of an epoch.
std::uint64_t Clerk::enough_units() const {
  const double share = options_.epoch_share * static_cast<double>(plan_.units_per_epoch);
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::ceil(share)));
}

// All take as many steps of an epoch.
std::uint64_t Clerk::own_after(std::uint64_t unit, std::uint64_t worker) const {
  const std::uint64_t next = unit + workers_.size();
  if (options_.epoch_share >= 1) return next;
  const std::uint64_t begin = epoch_of(unit) * plan_.units_per_epoch;
  return next - begin - worker < enough_units() ? next : begin + plan_.units_per_epoch + worker;
}

std::uint64_t Clerk::free_unit() {
  const std::uint64_t count = free_++;
  return count / enough_units() * plan_.units_per_epoch + count % enough_units();
}

void Clerk::end_epoch_if_over() {
  const bool all_wait =
      std::ranges::all_of(workers_, [](const Worker& each) { return each.waits || !each.active; });
  if (epoch_done_ < enough_units() && !all_wait) return;
  ++epoch_;
  epoch_done_ = 0;
  for (Worker& worker : workers_) worker.waits = false;
  changed_.ring();
}

void Clerk::stop() {
  stopped_ = true;
  changed_.ring();
}

void Clerk::leave(int worker) {
  workers_[static_cast<std::size_t>(worker)].active = false;
  workers_[static_cast<std::size_t>(worker)].waits = false;
  if (options_.mode == Mode::until_share) end_epoch_if_over();
}

}  // namespace starling
