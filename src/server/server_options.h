// What a server must know to serve: who its workers are, and what it does with what they push.
#pragma once

#include <chrono>

#include "server/chain.h"
#include "server/clerk.h"
#include "server/coding.h"
#include "server/gate.h"
#include "server/optimizer.h"
#include "server/staleness_rule.h"

namespace starling {

struct ServerOptions {
  int workers = 1;        // who talk to servers: all workers, or one a group
  int worker_stride = 1;  // worker i of those is rank i * stride
  Chain chain;            // read only where shards are replicated
  OptimizerSettings optimizer;
  GateSettings gate;
  StalenessRule staleness;
  Clerk::Options clerk;
  ServerCodec codec;
  std::chrono::seconds timeout{60};  // without a word from any worker
  // Workers and servers come and go: then any loss ends the generation, and what no server has kept
  // (server/server_estate.h) worker 0 puts anew.
  bool elastic = false;
};

// For errors that no server can have caused.
inline constexpr const char* kSameSettings =
    "all workers must run the same program with the same settings";

}  // namespace starling
