// Leader election by the bully algorithm: the highest rank that is alive leads.
//
//   A. A rank asks every higher rank that is alive: election?
//   B. Whoever is asked answers, and so takes the matter over.
//   C. A rank that nobody answers is the leader and says so to all lower ones.
//
// In place of a timeout that takes a slow rank for a dead one, no answer is the loss of the rank,
// as its Comm tells it.
#pragma once

#include <span>

#include "runtime/comm.h"

namespace starling {

// Called by all of `alive` (in ascending order, this rank among them); returns the leader's rank.
// Throws PeerLost if the leader is lost before it has said so: then elect again without it.
Task<int> elect_leader(Comm& comm, Channel channel, std::span<const int> alive);

}  // namespace starling
