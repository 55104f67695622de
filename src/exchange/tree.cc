// Tree all-reduce: sums climb the binomial tree to rank 0, the total comes down the same way.
#include "exchange/allreduce.h"
#include "exchange/move.h"
#include "exchange/vector_math.h"
#include "topology/binomial_tree.h"

namespace starling {

Task<> tree_allreduce(Comm& comm, Channel channel, std::span<float> values) {
  channel = channel.in("a tree all-reduce");
  const int rank = comm.rank();
  const int reach = tree_reach(rank, comm.size());

  for (int distance = 1; distance < reach; distance *= 2) {
    if (rank + distance < comm.size()) {
      co_await move(comm, channel, Incoming{rank + distance, values, add});
    }
  }
  if (rank != 0) {
    co_await move(comm, channel, Outgoing{tree_parent(rank), values});
    co_await move(comm, channel, Incoming{tree_parent(rank), values});
  }
  for (int distance = reach / 2; distance >= 1; distance /= 2) {
    if (rank + distance < comm.size()) {
      co_await move(comm, channel, Outgoing{rank + distance, values});
    }
  }
}

}  // namespace starling
