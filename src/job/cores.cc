#include "job/cores.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace starling {

Cores own_cores() {
  Cores cores;
  cores.there = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  cpu_set_t set;
  // Of a larger machine than the set has room for, all are.
  cores.usable = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : cores.there;
  return cores;
}

int threads_of_worker(const Cores& cores, int local_size) {
  return std::max(1, std::min(cores.usable, cores.there / local_size));
}

}  // namespace starling
