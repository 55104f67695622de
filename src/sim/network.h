// A modelled network: every host has one full-duplex port to a switch that never drops. A message
// waits for the sender's port, takes bytes / bandwidth through it, travels for the latency, and
// waits again if the receiver's port is still busy with another sender's bytes. Messages go as a
// whole, in the order in which the ports were asked for; stream.h says what holds a message back
// before that.
#pragma once

#include <limits>
#include <map>
#include <utility>

#include "runtime/clock.h"

namespace starling {

struct Cable {
  double bytes_per_second = std::numeric_limits<double>::infinity();
  Time latency{0};

  Time transfer_time(double bytes) const {
    return std::chrono::round<Time>(std::chrono::duration<double>(bytes / bytes_per_second));
  }
};

struct Network {
  Cable standard;
  std::map<std::pair<int, int>, Cable> exceptions;  // (from, to) -> one unlike the others

  const Cable& cable(int from, int to) const {
    const auto found = exceptions.find({from, to});
    return found == exceptions.end() ? standard : found->second;
  }
};

}  // namespace starling
