#include "sim/sim_loop.h"

#include "base/check.h"
#include "base/error.h"

namespace starling {

SimLoop::EventId SimLoop::at(Time time, std::function<void()> action) {
  STARLING_CHECK(time >= now_, "an event was planned for the past");
  const EventId id{time, planned_++};
  events_.emplace(id, std::move(action));
  return id;
}

void SimLoop::post(Sleep& sleep) {
  sleeps_[&sleep] = at(sleep.until(), [this, &sleep] {
    sleeps_.erase(&sleep);
    sleep.over = true;
    ready(sleep);
  });
}

void SimLoop::withdraw(Sleep& sleep) {
  const auto planned = sleeps_.find(&sleep);
  cancel(planned->second);
  sleeps_.erase(planned);
}

void SimLoop::wait_for_event() {
  if (events_.empty()) {
    throw Error("the simulation is stuck: every rank waits and no message is under way");
  }
  if (before_time_moves_ && events_.begin()->first.first > now_) before_time_moves_();
  auto event = events_.extract(events_.begin());
  now_ = event.key().first;
  event.mapped()();
}

bool SimLoop::take_events() {
  if (events_.empty() || events_.begin()->first.first > now_) return false;
  wait_for_event();
  return true;
}

}  // namespace starling
