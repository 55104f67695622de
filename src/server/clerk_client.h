// A worker's side of the clerk: the next unit of work, and the wish that nobody do any more.
#pragma once

#include "base/error.h"
#include "runtime/group.h"
#include "server/chain.h"
#include "server/clerk.h"
#include "server/messages.h"

namespace starling {

class ClerkClient {
 public:
  // The group of workers and servers, of whom those that hold shard 0 keep the clerk.
  ClerkClient(Group group, const Chain& chain) : group_(group), chain_(chain) {}

  // Clerk::kNoMore: nothing. Asking says that the unit before is done.
  Task<std::uint64_t> next() {
    WorkReply reply;
    while (true) {
      WorkRequest request{1, stopped_ ? 1u : 0u, answers_};
      try {
        co_await group_.send(server(), work_channel_at(distance()), object_bytes(request));
        co_await group_.receive(server(), unit_channel_at(distance()), object_bytes(reply));
        break;
      } catch (const PeerLost& lost) {
        if (!move_on(lost)) throw;
      }
    }
    ++answers_;
    co_return reply.unit;
  }

  Task<> stop() {
    stopped_ = true;
    WorkRequest request{0, 1, answers_};
    try {
      co_await group_.send(server(), work_channel_at(distance()), object_bytes(request));
    } catch (const PeerLost& lost) {  // the next in the chain hears of it when we ask again
      if (!move_on(lost)) throw;
    }
  }

 private:
  int server() const { return chain_.rank_at(0, position_); }
  int distance() const { return chain_.distance(0, server()); }
  bool move_on(const PeerLost& lost) {
    if (lost.rank() != group_.in_comm(server())) return false;
    return ++position_ < chain_.replicas;
  }

  Group group_;
  Chain chain_;
  int position_ = 0;
  std::uint64_t answers_ = 0;
  bool stopped_ = false;
};

}  // namespace starling
