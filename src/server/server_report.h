// What a server has seen: how many gradients it applied and dropped, and how stale they were.
#pragma once

#include <cstdint>

#include "base/staleness.h"

namespace starling {

struct ServerReport {
  std::uint64_t updates = 0;
  std::uint64_t dropped = 0;
  // Of the gradients that were applied, counted block by block: how many updates the block has had
  // since the worker read it.
  Staleness staleness;

  std::uint64_t applied() const { return staleness.count; }

  ServerReport& operator+=(const ServerReport& other) {
    updates += other.updates;
    dropped += other.dropped;
    staleness += other.staleness;
    return *this;
  }
};

}  // namespace starling
