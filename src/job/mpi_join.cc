#include "job/mpi_join.h"

#include <fmt/format.h>

#include "base/error.h"
#include "exchange/collectives.h"
#include "job/terms.h"
#include "net/mpi_comm.h"
#include "runtime/race.h"
#include "strategy/strategy.h"

namespace starling {

namespace {

Task<> hear_first(Comm& comm, std::string& terms) {
  std::uint64_t bytes = terms.size();
  co_await broadcast(comm, kControlChannel, object_bytes(bytes), 0);
  if (bytes > kMostTermsBytes) throw Error("the settings are too long to be compared");
  terms.resize(bytes);
  co_await broadcast(comm, kControlChannel, std::as_writable_bytes(std::span(terms)), 0);
}

void compare_terms(Comm& comm, const Job& job) {
  const std::string ours = terms_of(job);
  std::string first = ours;
  Loop& loop = comm.loop();
  loop.run(within(loop, loop.now() + job.timeout, "comparing settings", hear_first(comm, first)));
  if (first == ours) return;
  const Difference found = difference(first, ours);
  throw Error(fmt::format("rank 0 has {}, and rank {} {}", found.theirs, comm.rank(), found.ours),
              "all ranks need the same");
}

}  // namespace

std::unique_ptr<ProcessComm> join_by_mpi(TcpLoop& loop, const Job& job) {
  std::unique_ptr<ProcessComm> comm = join_mpi(loop, job.timeout);
  if (comm->rank() != job.rank || comm->size() != job.size) {
    throw Error(fmt::format("MPI has this process as rank {} of {}, and mpirun as rank {} of {}",
                            comm->rank(), comm->size(), job.rank, job.size),
                "use the mpirun of the MPI that Starling was built with");
  }
  compare_terms(*comm, job);
  return comm;
}

}  // namespace starling
