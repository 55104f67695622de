// Exchanges that move bytes without adding them: broadcast, gather, all-gather, barrier.
#pragma once

#include "runtime/comm.h"

namespace starling {

// The root's bytes, on every rank, by a binomial tree.
Task<> broadcast(Comm& comm, Channel channel, Bytes bytes, int root);

// Every rank's piece, in the order of ranks, in the root's `all` (n pieces; empty elsewhere).
Task<> gather(Comm& comm, Channel channel, ConstBytes piece, Bytes all, int root);

// Every rank's piece, in the order of ranks, on every rank. `all` holds n equal pieces; ours is in
// place.
Task<> all_gather(Comm& comm, Channel channel, Bytes all);

// Nobody leaves before everybody has come.
Task<> barrier(Comm& comm, Channel channel);

}  // namespace starling
