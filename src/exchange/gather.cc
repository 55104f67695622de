// Gather and scatter, straight between the root and everybody.
#include <algorithm>

#include "base/check.h"
#include "exchange/collectives.h"
#include "exchange/move.h"

namespace starling {

namespace {

template <class AnyVector>
AnyVector piece_of(AnyVector all, Pieces pieces, int rank) {
  const Range range = pieces[static_cast<std::size_t>(rank)];
  return all.subspan(range.begin, range.size());
}

void copy(ConstVector from, Vector to) {
  STARLING_CHECK(from.bytes().size() == to.bytes().size(), "a piece of {} elements for {}",
                 from.size(), to.size());
  std::ranges::copy(from.bytes(), to.bytes().begin());
}

}  // namespace

Task<> gather(Group group, Channel channel, ConstVector piece, Vector all, Pieces pieces,
              int root) {
  channel = channel.in("a gather");
  if (group.rank() != root) {
    co_await move(group, channel, Outgoing{root, piece});
    co_return;
  }
  copy(piece, piece_of(all, pieces, root));
  for (int from = 0; from < group.size(); ++from) {
    if (from != root) co_await move(group, channel, Incoming{from, piece_of(all, pieces, from)});
  }
}

Task<> scatter(Group group, Channel channel, ConstVector all, Pieces pieces, Vector piece,
               int root) {
  channel = channel.in("a scatter");
  if (group.rank() != root) {
    co_await move(group, channel, Incoming{root, piece});
    co_return;
  }
  copy(piece_of(all, pieces, root), piece);
  for (int to = 0; to < group.size(); ++to) {
    if (to != root) co_await move(group, channel, Outgoing{to, piece_of(all, pieces, to)});
  }
}

}  // namespace starling
