// with_patience(): a wait for which no fixed deadline is right: of somebody who has done its work while
// others may still be at theirs, or for a model of any size over a network of any speed. It goes on for as
// long as anything comes in from anybody or gets out, and fails when nothing has for the length of the
// patience.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "runtime/comm.h"
#include "runtime/race.h"

namespace starling {

inline std::uint64_t moved_bytes(const Comm& comm) {
  return comm.ledger().total(Direction::received).wire + comm.ledger().total(Direction::sent).wire;
}

// Until nothing has moved for so long, give or take a sixteenth.
inline Task<> until_silence(Comm& comm, Time patience) {
  Loop& loop = comm.loop();
  std::uint64_t moved = moved_bytes(comm);
  for (Time since = loop.now(); loop.now() < since + patience;) {
    co_await sleep_until(loop, loop.now() + std::max(patience / 16, Time(1)));
    const std::uint64_t now = moved_bytes(comm);
    if (now != moved) since = loop.now();
    moved = now;
  }
}

// `what` names the operation in the error; it must outlive the task.
inline Task<> with_patience(Comm& comm, Time patience, std::string_view what, Task<> task) {
  Task<int> contest = race(std::move(task), until_silence(comm, patience));
  const int winner = co_await contest;  // not inside the condition: GCC 12 miscompiles that
  if (winner == 0) co_return;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(patience).count();
  throw DeadlineExceeded(
      fmt::format("{}: nothing has come or gone for {} s", what, seconds),
      "a worker may be stopped or far slower than the others; --timeout grants more time");
}

}  // namespace starling
