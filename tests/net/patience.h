// Waiting in a test, with an end: what never comes fails the test at once instead of by ctest's
// limit.
#pragma once

#include "base/error.h"
#include "net/tcp_loop.h"

namespace starling {

template <class Predicate>
void poll_until(TcpLoop& loop, const Predicate& so) {
  const Time patience = loop.now() + std::chrono::seconds(60);
  while (!so()) {
    if (loop.now() > patience) throw Error("what the test waits for did not come");
    loop.poll();
  }
}

}  // namespace starling
