// The Comm of all processes that mpirun has started, for tests in which each of them plays one rank.
#pragma once

#include "base/bytes.h"
#include "net/process_comm.h"
#include "runtime/task.h"

namespace starling {

ProcessComm& mpi_world();
// Drives a task of all ranks; fails if it takes too long.
void run_over_mpi(Task<> task);
// Goes on when all have come here.
void meet_over_mpi();
// What that rank has there, to the same place of all others.
void tell_over_mpi(int rank, Bytes bytes);
// By the clock that all processes of the machine share.
Time time_of_this_machine();

}  // namespace starling
