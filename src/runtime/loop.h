// Loop: what drives coroutines. It resumes those that are ready and, when none is, lets its world
// (the kernel's events, or the simulator's next one) make some ready. One thread, no locks.
#pragma once

#include "runtime/clock.h"
#include "runtime/running.h"

namespace starling {

class Loop : public Clock {
 public:
  // Puts a waiter whose wait is over behind those that are ready already.
  virtual void ready(Waiter& waiter) { ready_.push_back(waiter); }

  // Drives the world until the task is done, and returns its result or throws its error.
  void run(Task<> task) {
    Running running(std::move(task));
    drive(running);
  }
  template <class T>
  T run(Task<T> task) {
    std::optional<T> result;
    Running running(store(std::move(task), result));
    drive(running);
    return std::move(*result);
  }

  // Drives until a task that was started before is done; throws its error.
  virtual void drive(Running& running) {
    drive_until([&] { return running.done(); });
    running.rethrow_failure();
  }
  // Drives until it is enough, which is asked before each wait for an event.
  template <class Enough>
  void drive_until(const Enough& enough) {
    while (!enough()) {
      if (!resume_ready()) wait_for_event();
    }
  }

  // Does what can be done without waiting.
  void poll() {
    do {
      while (resume_ready()) {
      }
    } while (take_events());
  }

 protected:
  // Waits until something happened; throws when nothing ever will.
  virtual void wait_for_event() = 0;
  // Handles what has happened already; false if nothing has.
  virtual bool take_events() = 0;
  // The first of those that are ready; false if there is none.
  bool resume_ready() {
    Waiter* waiter = ready_.front();
    if (waiter == nullptr) return false;
    waiter->unlink();
    waiter->coroutine.resume();
    return true;
  }

 private:
  template <class T>
  static Task<> store(Task<T> task, std::optional<T>& result) {
    result.emplace(co_await task);
  }

  List<Waiter> ready_;
};

}  // namespace starling
