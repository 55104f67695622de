// Tree all-reduce: sums climb the binomial tree to rank 0, the total comes down the same way.
#include "exchange/allreduce.h"
#include "exchange/collectives.h"

namespace starling {

Task<> tree_allreduce(Group group, Channel channel, Vector values, Reduction reduction) {
  channel = channel.in("a tree all-reduce");
  co_await reduce(group, channel, values, reduction, 0);
  co_await broadcast(group, channel, values, 0);
}

}  // namespace starling
