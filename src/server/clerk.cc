#include "server/clerk.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace starling {

Clerk::Clerk(Loop& loop, const Options& options, int workers)
    : options_(options), workers_(static_cast<std::size_t>(workers)), changed_(loop) {}

void Clerk::visit_state(State state) {
  std::vector<std::uint64_t> last;
  for (const Worker& worker : workers_) last.push_back(worker.last);
  state("last", last);
  state("free", free_);
  state("epoch", epoch_);
  state("epoch_done", epoch_done_);
  if (!state.restores_all()) return;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    workers_[i].last = last[i];
    workers_[i].again = last[i] != kNoMore;
  }
}

void Clerk::visit_copy(State state) {
  state("free", free_);
  state("epoch", epoch_);
  state("epoch_done", epoch_done_);
  state("stopped", stopped_);
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const State part = state.in(i);
    Worker& worker = workers_[i];
    part("active", worker.active);
    part("asks", worker.asks);
    part("waits", worker.waits);
    part("again", worker.again);
    part("last", worker.last);
    part("told", worker.told);
    part("last_told", worker.last_told);
  }
}

Task<std::uint64_t> Clerk::next(int worker) {
  ask(worker);
  while (has_to_wait(worker)) co_await changed_.rung();
  co_return tell(worker);
}

void Clerk::ask(int worker) {
  Worker& asking = of(worker);
  const bool new_to_us = !std::exchange(asking.asks, true) && !asking.again;
  if (!new_to_us || options_.mode != Mode::until_share) return;
  if (asking.last != kNoMore && epoch_of(asking.last) == epoch_) ++epoch_done_;
  asking.waits = epoch_of(own_next(worker)) > epoch_;
  end_epoch_if_over();
}

std::uint64_t Clerk::tell(int worker) {
  Worker& asking = of(worker);
  const std::uint64_t unit =
      std::exchange(asking.again, false) ? asking.last : unit_after_last(worker);
  asking.asks = asking.waits = false;
  asking.last = unit;
  ++asking.told;
  asking.last_told = stopped_ || unit >= plan_.units ? kNoMore : unit;
  return asking.last_told;
}

std::uint64_t Clerk::unit_after_last(int worker) {
  if (options_.mode == Mode::whoever_is_free) return free_unit();
  const auto own = static_cast<std::uint64_t>(worker);
  const std::uint64_t last = of(worker).last, next = own_next(worker);
  if (options_.mode == Mode::own_share) return last == kNoMore ? next : own_after(last, own);
  // The epoch may have ended without us.
  return epoch_of(next) < epoch_ ? epoch_ * plan_.units_per_epoch + own : next;
}

std::uint64_t Clerk::own_next(int worker) const {
  const std::uint64_t last = of(worker).last;
  return last == kNoMore ? static_cast<std::uint64_t>(worker) : last + workers_.size();
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
  of(worker).active = false;
  of(worker).waits = false;
  if (options_.mode == Mode::until_share) end_epoch_if_over();
}

}  // namespace starling
