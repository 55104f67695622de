#include "server/clerk.h"

#include <algorithm>
#include <cmath>

namespace starling {

Clerk::Clerk(Loop& loop, const Options& options, int workers)
    : options_(options), workers_(static_cast<std::size_t>(workers)), changed_(loop) {}

Task<std::uint64_t> Clerk::next(int worker) {
  Worker& asking = workers_[static_cast<std::size_t>(worker)];
  std::uint64_t unit =
      asking.last == kNoMore ? static_cast<std::uint64_t>(worker) : asking.last + workers_.size();
  if (options_.mode == Mode::whoever_is_free) {
    unit = free_++;
  } else if (options_.mode == Mode::until_share) {
    if (asking.last != kNoMore && epoch_of(asking.last) == epoch_) ++epoch_done_;
    asking.waits = epoch_of(unit) > epoch_;
    end_epoch_if_over();
    while (asking.waits && !stopped_) co_await changed_.rung();
    asking.waits = false;
    if (epoch_of(unit) < epoch_) {  // it ended without us
      unit = epoch_ * plan_.units_per_epoch + static_cast<std::uint64_t>(worker);
    }
  }
  asking.last = unit;
  co_return stopped_ || unit >= plan_.units ? kNoMore : unit;
}

void Clerk::end_epoch_if_over() {
  const double enough = options_.epoch_share * static_cast<double>(plan_.units_per_epoch);
  const bool all_wait =
      std::ranges::all_of(workers_, [](const Worker& each) { return each.waits || !each.active; });
  if (static_cast<double>(epoch_done_) < std::ceil(enough) && !all_wait) return;
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
