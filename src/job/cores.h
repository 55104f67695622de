// How many threads a worker's arithmetic may have: workers of one machine stand in each other's way if each
// starts one a core, and so do threads of one worker that was bound to fewer cores than it has threads.
#pragma once

namespace starling {

struct Cores {
  int there = 1;   // that the workers of this machine share
  int usable = 1;  // of them by this process: an engine, mpirun or taskset may have bound it
};
Cores own_cores();

// Of a worker on whose machine there are so many.
int threads_of_worker(const Cores& cores, int local_size);

}  // namespace starling
