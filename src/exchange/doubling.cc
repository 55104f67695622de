// Recursive doubling: in round k the ranks at distance 2^k swap their sums and add. a + b and b + a
// are the same bits, so both partners, and by induction all ranks, agree.
#include "exchange/allreduce.h"
#include "exchange/fold.h"

namespace starling {

Task<> doubling_allreduce(Group group, Channel channel, Vector values, Reduction reduction) {
  channel = channel.in("a doubling all-reduce");
  const Combine add = combiner(values.type(), reduction);
  const RankFold fold(group);

  co_await fold.give(group, channel, values, add);
  if (!fold.folded_in()) {
    for (int distance = 1; distance < fold.active(); distance *= 2) {
      const int partner = fold.rank_at(fold.position() ^ distance);
      co_await move(group, channel, {partner, values}, {partner, values, add});
    }
  }
  co_await fold.take_back(group, channel, values);
}

}  // namespace starling
