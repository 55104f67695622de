// Naive all-reduce: rank 0 adds what the others send, in the order of their ranks, and sends the
// sum to each.
#include "exchange/allreduce.h"
#include "exchange/move.h"

namespace starling {

Task<> naive_allreduce(Group group, Channel channel, Vector values, Reduction reduction) {
  channel = channel.in("a naive all-reduce");
  const Combine add = combiner(values.type(), reduction);
  if (group.rank() != 0) {
    co_await move(group, channel, Outgoing{0, values});
    co_await move(group, channel, Incoming{0, values});
    co_return;
  }
  for (int peer = 1; peer < group.size(); ++peer) {
    co_await move(group, channel, Incoming{peer, values, add});
  }
  for (int peer = 1; peer < group.size(); ++peer) {
    co_await move(group, channel, Outgoing{peer, values});
  }
}

}  // namespace starling
