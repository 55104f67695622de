// Recursive doubling: in round k the ranks at distance 2^k swap their sums and add. a + b and b + a
// are the same bits, so both partners, and by induction all ranks, agree.
#include "exchange/allreduce.h"
#include "exchange/fold.h"
#include "math/vector_math.h"

namespace starling {

Task<> doubling_allreduce(Comm& comm, Channel channel, std::span<float> values) {
  channel = channel.in("a doubling all-reduce");
  const Fold fold(comm);

  co_await fold.give(comm, channel, values);
  if (!fold.folded_in()) {
    for (int distance = 1; distance < fold.active(); distance *= 2) {
      const int partner = fold.rank_at(fold.position() ^ distance);
      co_await move(comm, channel, {partner, values}, {partner, values, add});
    }
  }
  co_await fold.take_back(comm, channel, values);
}

}  // namespace starling
