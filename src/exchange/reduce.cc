// Reduction up a binomial tree whose root is rank `root`: everybody adds its children's sums to its
// own, the nearest first, and passes the whole on to its parent. The order is fixed by rank.
#include "exchange/collectives.h"
#include "exchange/move.h"
#include "topology/binomial_tree.h"

namespace starling {

Task<> reduce(Group group, Channel channel, Vector values, Reduction reduction, int root) {
  channel = channel.or_in("a reduction");
  const Combine add = combiner(values.type(), reduction);
  const int place = group.ring(group.rank() - root);
  const auto rank_at = [&](int at) { return group.ring(root + at); };

  for (int distance = 1; distance < tree_reach(place, group.size()); distance *= 2) {
    if (place + distance < group.size()) {
      co_await move(group, channel, Incoming{rank_at(place + distance), values, add});
    }
  }
  if (place != 0) co_await move(group, channel, Outgoing{rank_at(tree_parent(place)), values});
}

}  // namespace starling
