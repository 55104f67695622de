// Joining a job over MPI: the ranks are mpirun's, and it is left to compare what all must have alike.
#pragma once

#include <memory>

#include "job/job.h"
#include "net/process_comm.h"
#include "net/tcp_loop.h"

namespace starling {

// Throws Error if this process is not of mpirun, if the others do not come before the job's timeout, or
// if one was not started like rank 0.
std::unique_ptr<ProcessComm> join_by_mpi(TcpLoop& loop, const Job& job);

}  // namespace starling
