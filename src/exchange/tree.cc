#include "exchange/tree.h"

#include "exchange/allreduce.h"
#include "exchange/move.h"
#include "math/vector_math.h"
#include "topology/binomial_tree.h"

namespace starling {

Task<> tree_reduce(Comm& comm, Channel channel, Group group, std::span<float> values) {
  const int place = comm.rank() - group.first;
  const int reach = tree_reach(place, group.size);
  for (int distance = 1; distance < reach; distance *= 2) {
    if (place + distance < group.size) {
      co_await move(comm, channel, Incoming{comm.rank() + distance, values, add});
    }
  }
  if (place != 0) {
    co_await move(comm, channel, Outgoing{group.first + tree_parent(place), values});
  }
}

Task<> tree_broadcast(Comm& comm, Channel channel, Group group, std::span<float> values) {
  const int place = comm.rank() - group.first;
  if (place != 0) {
    co_await move(comm, channel, Incoming{group.first + tree_parent(place), values});
  }
  for (int distance = tree_reach(place, group.size) / 2; distance >= 1; distance /= 2) {
    if (place + distance < group.size) {
      co_await move(comm, channel, Outgoing{comm.rank() + distance, values});
    }
  }
}

// Tree all-reduce: sums climb the binomial tree to rank 0, the total comes down the same way.
Task<> tree_allreduce(Comm& comm, Channel channel, std::span<float> values) {
  channel = channel.in("a tree all-reduce");
  const Group everybody{0, comm.size()};
  co_await tree_reduce(comm, channel, everybody, values);
  co_await tree_broadcast(comm, channel, everybody, values);
}

}  // namespace starling
