#include "exchange/collect.h"

#include <algorithm>

#include "base/check.h"
#include "topology/binomial_tree.h"

namespace starling {

Task<> broadcast(Comm& comm, Channel channel, Bytes bytes, int root) {
  channel = channel.in("a broadcast");
  const int place = comm.ring(comm.rank() - root);  // in the tree whose root is rank `root`
  const int reach = tree_reach(place, comm.size());

  if (place != 0) {
    co_await comm.receive(comm.ring(tree_parent(place) + root), channel, bytes);
  }
  for (int distance = reach / 2; distance >= 1; distance /= 2) {
    if (place + distance < comm.size()) {
      co_await comm.send(comm.ring(comm.rank() + distance), channel, bytes);
    }
  }
}

Task<> gather(Comm& comm, Channel channel, ConstBytes piece, Bytes all, int root) {
  channel = channel.in("a gather");
  if (comm.rank() != root) {
    co_await comm.send(root, channel, piece);
    co_return;
  }
  STARLING_CHECK(all.size() == piece.size() * static_cast<std::size_t>(comm.size()),
                 "{} bytes cannot hold {} pieces of {}", all.size(), comm.size(), piece.size());
  for (int from = 0; from < comm.size(); ++from) {
    const Bytes place = all.subspan(static_cast<std::size_t>(from) * piece.size(), piece.size());
    if (from == root) {
      std::ranges::copy(piece, place.begin());
    } else {
      co_await comm.receive(from, channel, place);
    }
  }
}

// The pieces travel around the ring: what came in the last step goes on in the next.
Task<> all_gather(Comm& comm, Channel channel, Bytes all) {
  channel = channel.in("an all-gather");
  const std::size_t piece_bytes = all.size() / static_cast<std::size_t>(comm.size());
  const auto piece = [&](int index) {
    return all.subspan(static_cast<std::size_t>(comm.ring(index)) * piece_bytes, piece_bytes);
  };
  for (int step = 0; step < comm.size() - 1; ++step) {
    auto in = comm.receive(comm.ring(comm.rank() - 1), channel, piece(comm.rank() - step - 1));
    auto out = comm.send(comm.ring(comm.rank() + 1), channel, piece(comm.rank() - step));
    co_await in;
    co_await out;
  }
}

// Dissemination: after the round at distance d, everybody has heard of the 2d ranks before it.
Task<> barrier(Comm& comm, Channel channel) {
  channel = channel.in("a barrier");
  for (int distance = 1; distance < comm.size(); distance *= 2) {
    auto in = comm.receive(comm.ring(comm.rank() - distance), channel, Bytes());
    auto out = comm.send(comm.ring(comm.rank() + distance), channel, ConstBytes());
    co_await in;
    co_await out;
  }
}

}  // namespace starling
