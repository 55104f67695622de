// Naive all-reduce: rank 0 adds what the others send, in the order of their ranks, and sends the
// sum to each.
#include "exchange/allreduce.h"
#include "exchange/move.h"
#include "math/vector_math.h"

namespace starling {

Task<> naive_allreduce(Comm& comm, Channel channel, std::span<float> values) {
  channel = channel.in("a naive all-reduce");
  if (comm.rank() != 0) {
    co_await move(comm, channel, Outgoing{0, values});
    co_await move(comm, channel, Incoming{0, values});
    co_return;
  }
  for (int peer = 1; peer < comm.size(); ++peer) {
    co_await move(comm, channel, Incoming{peer, values, add});
  }
  for (int peer = 1; peer < comm.size(); ++peer) {
    co_await move(comm, channel, Outgoing{peer, values});
  }
}

}  // namespace starling
