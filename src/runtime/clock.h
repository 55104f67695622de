// Time as algorithms see it: passed in, never asked of the system, so that the simulator can own
// it.
#pragma once

#include <chrono>
#include <coroutine>

#include "runtime/list.h"
#include "runtime/task.h"

namespace starling {

using Time = std::chrono::nanoseconds;  // since the world began

class Sleep;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time now() const = 0;

 protected:
  friend class Sleep;
  virtual void post(Sleep& sleep) = 0;
  virtual void withdraw(Sleep& sleep) = 0;
};

// Anything a coroutine can wait for in a Loop's queue of what is ready to go on.
class Waiter : public ListNode {
 public:
  std::coroutine_handle<> coroutine;
};

class Sleep : public Waiter {
 public:
  Sleep(Clock& clock, Time until) : clock_(clock), until_(until) {}
  ~Sleep() {
    if (coroutine && !over) clock_.withdraw(*this);
  }

  Time until() const { return until_; }

  bool await_ready() const { return clock_.now() >= until_; }
  void await_suspend(std::coroutine_handle<> awaiter) {
    coroutine = awaiter;
    clock_.post(*this);
  }
  void await_resume() const {}

  bool over = false;  // set by the clock

 private:
  Clock& clock_;
  Time until_;
};

inline Task<> sleep_until(Clock& clock, Time until) {
  Sleep sleep(clock, until);
  co_await sleep;
}

}  // namespace starling
