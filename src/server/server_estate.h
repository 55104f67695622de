// ServerEstate: what the servers of a generation (job/generations.h) leave to those of the next, who may
// be others, more or fewer. Each who may serve keeps one for as long as it is there.
//
//   co_await estate.take_over(holders, servers, generation);   // all who may have blocks, together
//   Server server(group, options, estate.past());
//   co_await server.serve();
//   estate.keep(server);                                       // the generation is over
//
// Where the same serve in the same places, nothing is sent. Else everybody sends what it has to all who
// serve now, and they take the latest of each stretch of the model: so a copy steps in for a server
// that was lost (server/chain.h). What nobody has, a worker puts from its own weights.
#pragma once

#include "runtime/group.h"
#include "server/block_state.h"
#include "server/server.h"

namespace starling {

class ServerEstate {
 public:
  // In all generations but the first, whose servers have nothing to take over. The first `servers` of
  // the group serve now. Its channels are for this alone. If the new generation
  // does not come to it, nothing has changed.
  Task<> take_over(Group holders, int servers, std::uint64_t generation);
  // What a server goes on from; lives until the next keep().
  State past() const { return kept_.generation == 0 ? State() : State::restoring(past_); }

  // If the server has not come to serving, or lacks part of a copy, what was taken over is kept.
  void keep(Server& server);
  // Others have it.
  void forget() { kept_ = {}; }

 private:
  KeptBlocks kept_;  // generation 0: nothing
  Snapshot past_;    // the same as a server takes it
  ServerReport report_;
  std::uint64_t generation_ = 1;  // that we are in, which place we have in it, of how many servers
  int place_ = 0, servers_ = 0;
};

}  // namespace starling
