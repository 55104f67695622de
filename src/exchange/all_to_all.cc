// All-to-all, in rotation: in step s everybody sends to the rank s places on and receives from the one
// s places back, so that no rank's port is asked by two at a time.
#include <algorithm>

#include "base/check.h"
#include "exchange/collectives.h"
#include "exchange/move.h"

namespace starling {

Task<> all_to_all(Group group, Channel channel, ConstVector out, Pieces out_pieces, Vector in,
                  Pieces in_pieces) {
  channel = channel.in("an all-to-all");
  const int rank = group.rank();
  const auto piece_for = [&](int to) {
    const Range range = out_pieces[static_cast<std::size_t>(to)];
    return out.subspan(range.begin, range.size());
  };
  const auto piece_of = [&](int from) {
    const Range range = in_pieces[static_cast<std::size_t>(from)];
    return in.subspan(range.begin, range.size());
  };

  STARLING_CHECK(piece_for(rank).size() == piece_of(rank).size(), "{} elements for itself, not {}",
                 piece_for(rank).size(), piece_of(rank).size());
  std::ranges::copy(piece_for(rank).bytes(), piece_of(rank).bytes().begin());
  for (int shift = 1; shift < group.size(); ++shift) {
    const int to = group.ring(rank + shift);
    const int from = group.ring(rank - shift);
    co_await move(group, channel, {to, piece_for(to)}, {from, piece_of(from)});
  }
}

}  // namespace starling
