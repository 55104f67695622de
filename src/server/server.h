// A parameter server: one process's share of it. It holds the blocks of one shard and serves all
// workers side by side; messages.h has the protocol, gate.h when it answers, clerk.h who does what.
#pragma once

#include <chrono>
#include <memory>

#include "runtime/group.h"
#include "server/block.h"
#include "server/clerk.h"
#include "server/coding.h"

namespace starling {

struct ServerOptions {
  int workers = 1;        // who talk to servers: all workers, or one a group
  int worker_stride = 1;  // worker i of those is rank i * stride
  OptimizerSettings optimizer;
  GateSettings gate;
  StalenessRule staleness;
  Clerk::Options clerk;
  ServerCodec codec;
  std::chrono::seconds timeout{60};  // without a word from any worker
};

class Server {
 public:
  Server(Group group, const ServerOptions& options);
  ~Server();

  // Serves until every worker has said bye. A worker that is lost ends it with PeerLost if the gate
  // needs everybody or if it owes us the first weights. Else the others go on without it: what it
  // has pushed counts if it was applied before the loss was noticed, and is dropped if it was still
  // waiting for the gate.
  Task<> serve();

  const ServerReport& report() const;
  // Sent on the wire from the first push until nobody would push any more.
  std::uint64_t training_bytes_sent() const;

  // For tests and replicas: sees every update of every block.
  void follow(Block::Follower follower);

 private:
  class Desk;
  std::unique_ptr<Desk> desk_;
};

}  // namespace starling
