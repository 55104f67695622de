// Leader election by the bully algorithm: the highest rank that is alive leads.
//
//   A. A rank asks every higher rank that is alive: election?
//   B. Whoever is asked answers, and so takes the matter over.
//   C. A rank that nobody answers is the leader and says so to all lower ones.
//
// In place of a timeout that takes a slow rank for a dead one, no answer is the loss of the rank,
// as its Comm tells it.
#pragma once

#include "runtime/group.h"

namespace starling {

// Called by all of the group, which is of those who are alive; returns the leader's place in it.
// Throws PeerLost if the leader is lost before it has said so: then elect again without it.
Task<int> elect_leader(Group alive, Channel channel);

}  // namespace starling
