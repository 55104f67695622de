// Joining a job: from the address of rank 0 to a connection with every other rank.
//
//   A. Rank 0 listens at the rendezvous. Every other rank listens on a port of its own.
//   B. Rank r > 0 calls rank 0, shakes hands, and tells its port.
//   C. When all have come, rank 0 sends everybody the roster: the address and port of each rank. If
//      one does not come or is lost meanwhile, it says which one instead.
//   D. Rank r calls the ranks 1 .. r-1 and is called by the ranks above it. They all listen
//      already: one that refuses the call has died.
//
// The listener stays open for as long as the job runs, so that a rank can be knocked at to see
// whether its process is still there. Whoever calls after all have come is hung up on.
#pragma once

#include <memory>

#include "job/job.h"
#include "net/tcp_comm.h"
#include "net/tcp_loop.h"

namespace starling {

class Door;

// A Comm with its listener.
class Membership {
 public:
  Membership(std::unique_ptr<Door> door, std::unique_ptr<TcpComm> comm);
  Membership(Membership&&) noexcept;
  ~Membership();

  TcpComm& comm() { return *comm_; }
  std::uint16_t port() const;  // where others knock

 private:
  std::unique_ptr<Door> door_;
  std::unique_ptr<TcpComm> comm_;
};

// Throws Error if not everybody is there before the job's timeout, and PeerLost if somebody was and
// has gone again.
Membership join(TcpLoop& loop, const Job& job);
// The same as a task, for several ranks in one process.
Task<Membership> join_task(TcpLoop& loop, Job job);

// A socket listening on a free loopback port: what the launcher hands to rank 0.
asio::ip::tcp::acceptor listen_on_loopback(TcpLoop& loop);

}  // namespace starling
