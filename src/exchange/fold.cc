#include "exchange/fold.h"

#include <bit>

namespace starling {

RankFold::RankFold(Group group)
    : active_(static_cast<int>(std::bit_floor(static_cast<unsigned>(group.size())))),
      extra_(group.size() - active_),
      has_neighbour_(group.rank() < 2 * extra_),
      folded_in_(has_neighbour_ && group.rank() % 2 == 1),
      position_(has_neighbour_ ? group.rank() / 2 : group.rank() - extra_) {}

Task<> RankFold::give(Group group, Channel channel, Vector values, Combine combine) const {
  if (!has_neighbour_) co_return;
  if (folded_in_) {
    co_await move(group, channel, Outgoing{group.rank() - 1, values});
  } else {
    co_await move(group, channel, Incoming{group.rank() + 1, values, combine});
  }
}

Task<> RankFold::take_back(Group group, Channel channel, Vector values) const {
  if (!has_neighbour_) co_return;
  if (folded_in_) {
    co_await move(group, channel, Incoming{group.rank() - 1, values});
  } else {
    co_await move(group, channel, Outgoing{group.rank() + 1, values});
  }
}

}  // namespace starling
