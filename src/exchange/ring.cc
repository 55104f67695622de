// Ring all-reduce (Patarasuk and Yuan). The vector is cut into n *chunks*. A step sends one chunk
// to the next rank and receives one from the previous:
//
//   share-reduce, n - 1 steps: what arrives is added to our chunk and goes on in the next step;
//     afterwards rank r holds the complete sum of chunk r + 1.
//   share-only, n - 1 steps: complete chunks travel once around.
#include "base/range.h"
#include "exchange/allreduce.h"
#include "exchange/move.h"
#include "math/vector_math.h"

namespace starling {

Task<> ring_allreduce(Comm& comm, Channel channel, std::span<float> values) {
  channel = channel.in("a ring all-reduce");
  const int rank = comm.rank();
  const int size = comm.size();
  const int next = comm.ring(rank + 1);
  const int previous = comm.ring(rank - 1);
  const auto chunk = [&](int index) { return part_of(values, size, comm.ring(index)); };

  for (int step = 0; step < size - 1; ++step) {
    co_await move(comm, channel, {next, chunk(rank - step)},
                  {previous, chunk(rank - step - 1), add});
  }
  for (int step = 0; step < size - 1; ++step) {
    co_await move(comm, channel, {next, chunk(rank - step + 1)}, {previous, chunk(rank - step)});
  }
}

}  // namespace starling
