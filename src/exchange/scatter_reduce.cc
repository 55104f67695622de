// Scatter-reduce all-reduce, the way to one server that is not bound by the server's port alone:
//
//   A. every rank sends part j of its vector to rank j, which adds the parts up in the order of
//      ranks;
//   B. rank 0, the server, collects the n summed parts;
//   C. rank 0 hands part j of the whole to rank j (a server would have updated its weights in
//      between);
//   D. every rank sends its part to all others.
//
// In A and D the peers are visited in rotation, so that no rank's port is asked by two at a time.
#include "base/range.h"
#include "exchange/allreduce.h"
#include "exchange/move.h"
#include "math/vector_math.h"

namespace starling {

Task<> scatter_reduce_allreduce(Comm& comm, Channel channel, std::span<float> values) {
  channel = channel.in("a scatter-reduce all-reduce");
  const int rank = comm.rank();
  const int size = comm.size();
  if (size == 1) co_return;
  const std::span<float> mine = part_of(values, size, rank);

  // A. Others' versions of our part wait in scratch until all are here: the order of ranks is
  // fixed.
  auto scratch = comm.lend<float>(mine.size() * static_cast<std::size_t>(size));
  const auto version = [&](int of) {
    return scratch.span().subspan(static_cast<std::size_t>(of) * mine.size(), mine.size());
  };
  for (int shift = 1; shift < size; ++shift) {
    const int to = comm.ring(rank + shift);
    const int from = comm.ring(rank - shift);
    co_await move(comm, channel, {to, part_of(values, size, to)}, {from, version(from)});
  }
  std::copy(mine.begin(), mine.end(), version(rank).begin());
  std::copy(version(0).begin(), version(0).end(), mine.begin());
  for (int from = 1; from < size; ++from) add(mine, version(from));

  // B and C.
  if (rank == 0) {
    for (int peer = 1; peer < size; ++peer) {
      co_await move(comm, channel, Incoming{peer, part_of(values, size, peer)});
    }
    for (int peer = 1; peer < size; ++peer) {
      co_await move(comm, channel, Outgoing{peer, part_of(values, size, peer)});
    }
  } else {
    co_await move(comm, channel, Outgoing{0, mine});
    co_await move(comm, channel, Incoming{0, mine});
  }

  // D.
  for (int shift = 1; shift < size; ++shift) {
    const int from = comm.ring(rank - shift);
    co_await move(comm, channel, {comm.ring(rank + shift), mine},
                  {from, part_of(values, size, from)});
  }
}

}  // namespace starling
