// Rabenseifner's all-reduce. Halving: partners at distance n/2, n/4 ... 1 split the range they
// share; each sends one half and adds the other's version of the half it keeps, until everybody
// holds one part's sum. Doubling runs the same partners backwards and shares what is complete.
#include "base/range.h"
#include "exchange/allreduce.h"
#include "exchange/fold.h"

namespace starling {

Task<> halving_doubling_allreduce(Group group, Channel channel, Vector values,
                                  Reduction reduction) {
  channel = channel.in("a halving-doubling all-reduce");
  const Combine add = combiner(values.type(), reduction);
  const RankFold fold(group);
  const int active = fold.active();

  // The parts [first, first + count) as one vector.
  const auto parts = [&](int first, int count) {
    const auto n = static_cast<std::size_t>(active);
    const std::size_t begin = part(values.size(), n, static_cast<std::size_t>(first)).begin;
    const std::size_t end = part(values.size(), n, static_cast<std::size_t>(first + count - 1)).end;
    return values.subspan(begin, end - begin);
  };
  // With a partner at `distance`, ours is the aligned block of `distance` parts that we are in.
  const auto block = [&](int position, int distance) {
    return parts(position / distance * distance, distance);
  };

  co_await fold.give(group, channel, values, add);
  if (!fold.folded_in()) {
    const int me = fold.position();
    for (int distance = active / 2; distance >= 1; distance /= 2) {
      const int other = me ^ distance;
      const int partner = fold.rank_at(other);
      co_await move(group, channel, {partner, block(other, distance)},
                    {partner, block(me, distance), add});
    }
    for (int distance = 1; distance < active; distance *= 2) {
      const int other = me ^ distance;
      const int partner = fold.rank_at(other);
      co_await move(group, channel, {partner, block(me, distance)},
                    {partner, block(other, distance)});
    }
  }
  co_await fold.take_back(group, channel, values);
}

}  // namespace starling
