// All-to-all all-reduce: everybody sends its values to everybody, and each rank adds them up by
// itself, in the order of ranks. It is what the ring improves upon: n - 1 whole vectors a rank, but
// all in one round of messages.
//
// Others' values wait in scratch until all are here, a segment at a time, so that they take little
// memory. Peers are visited in rotation, so that no rank's port is asked by two at a time.
#include <algorithm>

#include "exchange/allreduce.h"
#include "exchange/move.h"
#include "exchange/segments.h"

namespace starling {

Task<> all_to_all_allreduce(Group group, Channel channel, Vector values, Reduction reduction) {
  channel = channel.in("an all-to-all all-reduce");
  const Combine add = combiner(values.type(), reduction);
  const int rank = group.rank();
  const int size = group.size();
  if (size == 1) co_return;
  const std::size_t most = std::min(values.bytes().size(), kSegmentBytes);
  auto scratch = group.lend<std::byte>(most * static_cast<std::size_t>(size));

  for (std::size_t i = 0; i < segments(values); ++i) {
    const Vector mine = segment(values, i);
    const auto version = [&](int of) {
      std::byte* const aside = scratch.span().data() + static_cast<std::size_t>(of) * most;
      return Vector(mine.type(), aside, mine.size());
    };
    for (int shift = 1; shift < size; ++shift) {
      const int from = group.ring(rank - shift);
      co_await move(group, channel, {group.ring(rank + shift), mine}, {from, version(from)});
    }
    std::ranges::copy(mine.bytes(), version(rank).bytes().begin());
    std::ranges::copy(version(0).bytes(), mine.bytes().begin());
    for (int from = 1; from < size; ++from) add(mine, version(from));
  }
}

}  // namespace starling
