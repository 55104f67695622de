// What goes wrong in a simulated world, and when: all in one struct, so that a test that fails can
// print it with its seed and be run again.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <vector>

#include "runtime/clock.h"

namespace starling {

struct Faults {
  struct Partition {
    std::vector<int> ranks;  // that are cut off from all others
    Time from, until;
  };

  std::uint64_t seed = 0;  // of the run that they happen in
  // rank -> when it ends, in the middle of what it does; the others notice after a latency.
  std::map<int, Time> crashes;
  // rank -> when its program throws an error; the others notice after a latency.
  std::map<int, Time> failures;
  // No message passes between the two sides. A short partition only delays them, as TCP sends them
  // again; in one that lasts longer than `detection` each side loses the other.
  std::vector<Partition> partitions;
  Time detection = std::chrono::seconds(10);
};

std::ostream& operator<<(std::ostream& out, const Faults& faults);

}  // namespace starling
