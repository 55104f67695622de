// A parameter server: one process's share of it. It holds the blocks of its own shard, and copies of
// its neighbours' if shards are replicated, and serves all workers side by side; messages.h has the
// protocol, gate.h when it answers, clerk.h who does what, chain.h what happens when one is lost.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "runtime/group.h"
#include "server/block.h"
#include "server/server_options.h"

namespace starling {

class Desk;

class Server {
 public:
  // Goes on from the past as soon as a worker says which blocks there are.
  Server(Group group, const ServerOptions& options, State past = {});
  ~Server();

  // Serves until every worker has said bye. A worker that is lost ends it with PeerLost if the gate
  // needs everybody or if it owes us the first weights. Else the others go on without it: what it
  // has pushed counts if it was applied before the loss was noticed, and is dropped if it was still
  // waiting for the gate.
  Task<> serve();

  // Of its own shard.
  const ServerReport& report() const;
  // Sent on the wire from the first push until nobody would push any more.
  std::uint64_t training_bytes_sent() const;

  // The blocks that it serves, by where they begin in the model: those of all servers together serve
  // any cut of it.
  void visit_state(State state);
  // All blocks that it has, copies among them.
  void visit_blocks(State state);
  // Whether there is something in all of those that it serves.
  bool has_weights() const;
  // The same, also in all copies that it is to have.
  bool has_all_copies() const;
  // What it does when a worker asks it to keep its state, after so many steps of that worker.
  using Keep = std::function<void(std::uint64_t step)>;
  void on_save(const Keep& keep);

  // For tests: sees every update of every block that it serves.
  void follow(Block::Follower follower);

 private:
  std::vector<std::unique_ptr<Desk>> desks_;  // of its own shard, the one before, and so on
};

}  // namespace starling
