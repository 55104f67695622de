// Joining a job: from the address of rank 0 to a connection with every other rank.
//
//   A. Rank 0 listens at the rendezvous. Every other rank listens on a port of its own.
//   B. Rank r > 0 calls rank 0, shakes hands, and tells its port.
//   C. When all have come, rank 0 sends everybody the roster: the address and port of each rank. If
//      one does not come, is lost meanwhile or was not started alike, it says which one instead.
//   D. Rank r calls the ranks 1 .. r-1 and is called by the ranks above it. They all listen
//      already: one that refuses the call has died.
//   E. Who finds that another has gone waits a moment for a word on whose account, then tells all
//      whom it has a connection with, and gives up, too.
//
// While somebody is missing, one rank of each machine says every now and then whom it waits for.
//
// The listener stays open for as long as the job runs, so that a rank can be knocked at to see
// whether its process is still there. Whoever calls after all have come is hung up on.
#pragma once

#include <memory>

#include "job/job.h"
#include "net/mesh.h"
#include "net/tcp_host.h"

namespace starling {

class Door;

// A Comm with its listener.
class Membership {
 public:
  Membership(std::unique_ptr<Door> door, std::unique_ptr<Mesh> comm);
  Membership(Membership&&) noexcept;
  ~Membership();

  Mesh& comm() { return *comm_; }
  std::uint32_t port() const;  // where others knock

 private:
  std::unique_ptr<Door> door_;
  std::unique_ptr<Mesh> comm_;
};

// Throws Error if not everybody is there before the job's timeout, Disagreement if somebody was not
// started like us, and PeerLost if somebody was there and has gone again.
Membership join(TcpHost& host, const Job& job);
// What the launcher has opened for rank 0; nullptr if it has not.
std::unique_ptr<Listener> inherited_listener(TcpHost& host, const Job& job);
// The same as a task, on any host. The listener is one that was there before, or there will be a new
// one.
Task<Membership> join_task(Host& host, Job job, std::unique_ptr<Listener> listener = nullptr);
// Where the rendezvous is known by its address, and each has a listener.
Task<Membership> meet_task(Host& host, Job job, Address rendezvous,
                           std::unique_ptr<Listener> listener);

}  // namespace starling
