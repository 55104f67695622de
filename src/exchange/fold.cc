#include "exchange/fold.h"

#include <bit>

#include "math/vector_math.h"

namespace starling {

Fold::Fold(const Comm& comm)
    : active_(static_cast<int>(std::bit_floor(static_cast<unsigned>(comm.size())))),
      extra_(comm.size() - active_),
      has_neighbour_(comm.rank() < 2 * extra_),
      folded_in_(has_neighbour_ && comm.rank() % 2 == 1),
      position_(has_neighbour_ ? comm.rank() / 2 : comm.rank() - extra_) {}

Task<> Fold::give(Comm& comm, Channel channel, std::span<float> values) const {
  if (!has_neighbour_) co_return;
  if (folded_in_) {
    co_await move(comm, channel, Outgoing{comm.rank() - 1, values});
  } else {
    co_await move(comm, channel, Incoming{comm.rank() + 1, values, add});
  }
}

Task<> Fold::take_back(Comm& comm, Channel channel, std::span<float> values) const {
  if (!has_neighbour_) co_return;
  if (folded_in_) {
    co_await move(comm, channel, Incoming{comm.rank() - 1, values});
  } else {
    co_await move(comm, channel, Outgoing{comm.rank() + 1, values});
  }
}

}  // namespace starling
