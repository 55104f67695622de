// Barrier by dissemination: after the round at distance d, everybody has heard of the 2d ranks before
// it.
#include "exchange/collectives.h"

namespace starling {

Task<> barrier(Group group, Channel channel) {
  channel = channel.in("a barrier");
  for (int distance = 1; distance < group.size(); distance *= 2) {
    auto in = group.receive(group.ring(group.rank() - distance), channel, Bytes());
    auto out = group.send(group.ring(group.rank() + distance), channel, ConstBytes());
    co_await in;
    co_await out;
  }
}

}  // namespace starling
