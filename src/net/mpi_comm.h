// A Comm over MPI, between the processes that mpirun has started: for networks that MPI knows how to use,
// and where it is how programs are started. Everything above runs on it unchanged.
//
// What is different from links (net/mesh.h): MPI moves bytes only while somebody calls it, so the loop
// looks at it instead of sleeping in the kernel; it does not encrypt; the ledger knows nothing of its
// headers; and it cannot do without a process, so that the first that fails ends the job, whatever the
// system could survive.
#pragma once

#include <chrono>
#include <memory>

#include "net/process_comm.h"
#include "net/tcp_loop.h"

namespace starling {

// Throws Error unless this program was built with MPI.
void check_has_mpi();

// Meets all processes of mpirun, for no longer than that: its own calls know no deadline, so one of ours
// ends the process. Once in a process, unless the program itself starts and ends MPI. The loop must
// outlive the Comm, whose end waits for that of all others. Throws Error.
std::unique_ptr<ProcessComm> join_mpi(TcpLoop& loop, std::chrono::seconds timeout);

}  // namespace starling
