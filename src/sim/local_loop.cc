#include "sim/local_loop.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/rank_threads.h"

namespace starling {

void LocalLoop::drive(Running& running) {
  RankThread* const rank = RankThread::current(*this);
  if (rank == nullptr) return world_.drive(running);
  rank->wait_for(running);
  running.rethrow_failure();
}

void LocalLoop::ready(Waiter& waiter) {
  is_stopped() ? held_.push_back(waiter) : world_.ready(waiter);
}

void LocalLoop::go_on() {
  if (stops_ > 0 && --stops_ > 0) return;
  while (Waiter* waiter = held_.front()) world_.ready(*waiter);
}

bool LocalLoop::take_events() {
  world_.poll();
  return false;
}

Time LocalLoop::local(Time world) const {
  return rate_ == 1 ? world : Time(std::llround(static_cast<double>(world.count()) * rate_));
}

Time LocalLoop::first_world_time_at(Time local_time) const {
  constexpr Time kFarAway = std::chrono::hours(24);  // exact to the nanosecond up to here
  if (rate_ == 1 || local_time > kFarAway) return local_time;
  Time world(std::llround(static_cast<double>(local_time.count()) / rate_));
  while (local(world) >= local_time) --world;
  while (local(world) < local_time) ++world;
  return world;
}

void LocalLoop::post(Sleep& sleep) {
  const Time when = std::max(world_.now(), first_world_time_at(sleep.until()));
  sleeps_[&sleep] = world_.at(when, [this, &sleep] {
    sleeps_.erase(&sleep);
    sleep.over = true;
    ready(sleep);
  });
}

void LocalLoop::withdraw(Sleep& sleep) {
  const auto planned = sleeps_.find(&sleep);
  world_.cancel(planned->second);
  sleeps_.erase(planned);
}

}  // namespace starling
