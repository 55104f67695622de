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
#include <algorithm>

#include "base/range.h"
#include "exchange/allreduce.h"
#include "exchange/move.h"

namespace starling {

Task<> scatter_reduce_allreduce(Group group, Channel channel, Vector values, Reduction reduction) {
  channel = channel.in("a scatter-reduce all-reduce");
  const Combine add = combiner(values.type(), reduction);
  const int rank = group.rank();
  const int size = group.size();
  if (size == 1) co_return;
  const Vector mine = part_of(values, size, rank);

  // A. Others' versions of our part wait in scratch until all are here: the order of ranks is
  // fixed.
  const std::size_t mine_bytes = mine.bytes().size();
  auto scratch = group.lend<std::byte>(mine_bytes * static_cast<std::size_t>(size));
  const auto version = [&](int of) {
    std::byte* const aside = scratch.span().data() + static_cast<std::size_t>(of) * mine_bytes;
    return Vector(mine.type(), aside, mine.size());
  };
  for (int shift = 1; shift < size; ++shift) {
    const int to = group.ring(rank + shift);
    const int from = group.ring(rank - shift);
    co_await move(group, channel, {to, part_of(values, size, to)}, {from, version(from)});
  }
  std::ranges::copy(mine.bytes(), version(rank).bytes().begin());
  std::ranges::copy(version(0).bytes(), mine.bytes().begin());
  for (int from = 1; from < size; ++from) add(mine, version(from));

  // B and C.
  if (rank == 0) {
    for (int peer = 1; peer < size; ++peer) {
      co_await move(group, channel, Incoming{peer, part_of(values, size, peer)});
    }
    for (int peer = 1; peer < size; ++peer) {
      co_await move(group, channel, Outgoing{peer, part_of(values, size, peer)});
    }
  } else {
    co_await move(group, channel, Outgoing{0, mine});
    co_await move(group, channel, Incoming{0, mine});
  }

  // D.
  for (int shift = 1; shift < size; ++shift) {
    const int from = group.ring(rank - shift);
    co_await move(group, channel, {group.ring(rank + shift), mine},
                  {from, part_of(values, size, from)});
  }
}

}  // namespace starling
