// Broadcast down a binomial tree whose root is rank `root`: who has the values sends them on to the
// half of its branch that is furthest away first.
#include "exchange/collectives.h"
#include "exchange/move.h"
#include "topology/binomial_tree.h"

namespace starling {

Task<> broadcast(Group group, Channel channel, Vector values, int root) {
  channel = channel.or_in("a broadcast");
  const int place = group.ring(group.rank() - root);
  const auto rank_at = [&](int at) { return group.ring(root + at); };

  if (place != 0) co_await move(group, channel, Incoming{rank_at(tree_parent(place)), values});
  for (int distance = tree_reach(place, group.size()) / 2; distance >= 1; distance /= 2) {
    if (place + distance < group.size()) {
      co_await move(group, channel, Outgoing{rank_at(place + distance), values});
    }
  }
}

}  // namespace starling
