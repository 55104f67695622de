// The simulator's clock and event queue. Time moves only when nothing is ready: it jumps to the
// next event. Events at the same time happen in the order they were planned, so a run depends on
// nothing but its inputs. Each rank sees it through a loop of its own (local_loop.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <unordered_map>
#include <utility>

#include "runtime/loop.h"

namespace starling {

class SimLoop : public Loop {
 public:
  Time now() const override { return now_; }
  using EventId = std::pair<Time, std::uint64_t>;
  EventId at(Time time, std::function<void()> action);
  void cancel(EventId event) { events_.erase(event); }

  // The next thing that there is to do.
  void step() {
    if (!resume_ready()) wait_for_event();
  }

  // Called whenever all that happens at one time has happened, before time moves on.
  void before_time_moves(std::function<void()> action) { before_time_moves_ = std::move(action); }

 private:
  void post(Sleep& sleep) override;
  void withdraw(Sleep& sleep) override;
  void wait_for_event() override;
  bool take_events() override;

  Time now_{0};
  std::function<void()> before_time_moves_;
  std::uint64_t planned_ = 0;
  std::map<EventId, std::function<void()>> events_;
  std::unordered_map<Sleep*, EventId> sleeps_;
};

}  // namespace starling
