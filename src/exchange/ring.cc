// Ring all-reduce (Patarasuk and Yuan). The vector is cut into n *chunks*. A step sends one chunk
// to the next rank and receives one from the previous:
//
//   share-reduce, n - 1 steps: what arrives is added to our chunk and goes on in the next step;
//     afterwards rank r holds the complete sum of chunk r + 1.
//   share-only, n - 1 steps: complete chunks travel once around.
#include "base/range.h"
#include "exchange/allreduce.h"
#include "exchange/move.h"

namespace starling {

Task<> ring_allreduce(Group group, Channel channel, Vector values, Reduction reduction) {
  channel = channel.in("a ring all-reduce");
  const Combine add = combiner(values.type(), reduction);
  const int rank = group.rank();
  const int size = group.size();
  const int next = group.ring(rank + 1);
  const int previous = group.ring(rank - 1);
  const auto chunk = [&](int index) { return part_of(values, size, group.ring(index)); };

  for (int step = 0; step < size - 1; ++step) {
    co_await move(group, channel, {next, chunk(rank - step)},
                  {previous, chunk(rank - step - 1), add});
  }
  for (int step = 0; step < size - 1; ++step) {
    co_await move(group, channel, {next, chunk(rank - step + 1)}, {previous, chunk(rank - step)});
  }
}

}  // namespace starling
