// All-gather around the ring: what came in the last step goes on in the next.
#include "base/check.h"
#include "exchange/collectives.h"
#include "exchange/move.h"

namespace starling {

std::vector<Range> even_pieces(ConstVector values, int n) {
  const std::size_t size = values.size() / static_cast<std::size_t>(n);
  STARLING_CHECK(size * static_cast<std::size_t>(n) == values.size(),
                 "{} elements are no {} pieces of equal length", values.size(), n);
  std::vector<Range> pieces;
  for (std::size_t begin = 0; pieces.size() < static_cast<std::size_t>(n); begin += size) {
    pieces.push_back({begin, begin + size});
  }
  return pieces;
}

Task<> all_gather(Group group, Channel channel, Vector all, Pieces pieces) {
  channel = channel.in("an all-gather");
  const int rank = group.rank();
  const int next = group.ring(rank + 1);
  const int previous = group.ring(rank - 1);
  const auto piece = [&](int of) {
    const Range range = pieces[static_cast<std::size_t>(group.ring(of))];
    return all.subspan(range.begin, range.size());
  };

  for (int step = 0; step < group.size() - 1; ++step) {
    co_await move(group, channel, {next, piece(rank - step)}, {previous, piece(rank - step - 1)});
  }
}

}  // namespace starling
