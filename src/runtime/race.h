// race(a, b): run both until one is done, cancel the other, and say which won (0 or 1). A failure
// wins too and is rethrown. within() is the race against a deadline that every wait in Starling
// runs under.
#pragma once

#include <string_view>

#include "base/error.h"
#include "runtime/clock.h"
#include "runtime/running.h"

namespace starling {

inline Task<int> race(Task<> a, Task<> b) {
  Signal signal;
  Running first(std::move(a), signal);
  if (!first.done()) {
    Running second(std::move(b), signal);
    while (!first.done() && !second.done()) co_await signal;
    if (!first.done()) {
      second.rethrow_failure();
      co_return 1;
    }
  }
  first.rethrow_failure();
  co_return 0;
}

// `what` names the operation in the error; it must outlive the task.
inline Task<> within(Clock& clock, Time deadline, std::string_view what, Task<> task) {
  Task<int> contest = race(std::move(task), sleep_until(clock, deadline));
  const int winner = co_await contest;  // not inside the condition: GCC 12 miscompiles that
  if (winner == 1) {
    throw DeadlineExceeded(
        std::string(what) + " did not finish before its deadline",
        "a worker may be stopped or far slower than the others; --timeout grants more time");
  }
}

}  // namespace starling
