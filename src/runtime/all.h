// all(tasks): run them side by side until every one is done. The first failure cancels the others
// and is rethrown, so nothing goes on behind the caller's back.
#pragma once

#include <algorithm>
#include <list>
#include <vector>

#include "runtime/running.h"

namespace starling {

inline Task<> all(std::vector<Task<>> tasks) {
  Signal signal;
  std::list<Running> running;
  for (Task<>& task : tasks) {
    running.emplace_back(std::move(task), signal);
    running.back().rethrow_failure();
  }
  while (true) {  // looks before it waits: the start of one may have let an earlier one fail
    for (const Running& branch : running) branch.rethrow_failure();
    if (std::ranges::all_of(running, &Running::done)) co_return;
    co_await signal;
  }
}

}  // namespace starling
