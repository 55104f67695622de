// Pairwise averaging. One pass sends our weights to the next rank and averages what the previous
// one sends into them. More passes need the sum over a *window* of passes + 1 ranks, built by
// doubling: the sum over two ranks plus the sum over two from two ranks back is the sum over four
// (topology/mixing.h).
#include "exchange/pairwise.h"

#include <algorithm>

#include "exchange/allreduce.h"
#include "exchange/move.h"
#include "math/vector_math.h"
#include "topology/mixing.h"

namespace starling {

namespace {

void average_floats(Vector into, ConstVector x) { average(into.as<float>(), x.as<float>()); }

// Sends `out` to the rank `distance` after us and combines what the one `distance` before us sends.
Task<> shift(Group group, Channel channel, int distance, ConstVector out, Vector into,
             Combine combine) {
  return move(group, channel, {group.ring(group.rank() + distance), out},
              {group.ring(group.rank() - distance), into, combine});
}

}  // namespace

Task<> pairwise_average(Group group, Channel channel, std::span<float> weights, int passes) {
  if (group.size() == 1) co_return;
  if (passes >= group.size() - 1) {
    co_await mean_of_all(group, channel, weights);
    co_return;
  }
  channel = channel.in("a pairwise exchange");
  if (passes == 1) {
    co_await shift(group, channel, 1, weights, weights, average_floats);
    co_return;
  }
  auto own = group.lend<float>(weights.size());
  std::copy(weights.begin(), weights.end(), own.span().begin());
  for (const WindowStep& step : window_steps(passes + 1)) {
    const std::span<float> out = step.width == 1 ? own.span() : weights;
    co_await shift(group, channel, step.distance, out, weights,
                   combiner(Element::f32, Reduction::sum));
  }
  scale(weights, 1.0f / static_cast<float>(passes + 1));
}

Task<> exponential_average(Group group, Channel channel, std::span<float> weights,
                           std::uint64_t round) {
  if (group.size() == 1) co_return;
  co_await shift(group, channel.in("an exponential exchange"),
                 exponential_distance(group.size(), round), weights, weights, average_floats);
}

Task<> mean_of_all(Group group, Channel channel, std::span<float> weights) {
  co_await allreduce(ring_allreduce, group, channel, weights, Reduction::mean);
}

double pairwise_vectors_sent(int size, int passes) {
  if (passes >= size - 1) return mean_vectors_sent(size);
  return static_cast<double>(window_steps(passes + 1).size());
}

}  // namespace starling
