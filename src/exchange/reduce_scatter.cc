// Reduce-scatter around the ring, the first half of the ring all-reduce: in each step a piece arrives,
// is added to ours and goes on in the next, so that piece r is complete when it comes to rank r.
#include "exchange/collectives.h"
#include "exchange/move.h"

namespace starling {

Task<> reduce_scatter(Group group, Channel channel, Vector values, Pieces pieces,
                      Reduction reduction) {
  channel = channel.in("a reduce-scatter");
  const Combine add = combiner(values.type(), reduction);
  const int rank = group.rank();
  const int next = group.ring(rank + 1);
  const int previous = group.ring(rank - 1);
  const auto piece = [&](int of) {
    const Range range = pieces[static_cast<std::size_t>(group.ring(of))];
    return values.subspan(range.begin, range.size());
  };

  for (int step = 1; step < group.size(); ++step) {
    co_await move(group, channel, {next, piece(rank - step)},
                  {previous, piece(rank - step - 1), add});
  }
}

}  // namespace starling
