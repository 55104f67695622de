// The Comm of all processes that mpirun has started, for tests in which each of them plays one rank.
#pragma once

#include "net/process_comm.h"
#include "runtime/task.h"

namespace starling {

ProcessComm& mpi_world();
// Drives a task of all ranks; fails if it takes too long.
void run_over_mpi(Task<> task);

}  // namespace starling
