// In place of net/mpi_comm.cc where MPI was not found.
#include "base/error.h"
#include "net/mpi_comm.h"

namespace starling {

void check_has_mpi() {
  throw Error(
      "this starling was built without MPI",
      "install libopenmpi-dev or libmpich-dev and build it again, or leave out --transport");
}

std::unique_ptr<ProcessComm> join_mpi(TcpLoop&, std::chrono::seconds) {
  check_has_mpi();
  return nullptr;
}

}  // namespace starling
