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

// Sends `out` to the rank `distance` after us and combines what the one `distance` before us sends.
Task<> shift(Comm& comm, Channel channel, int distance, std::span<const float> out,
             std::span<float> into, Combine combine) {
  return move(comm, channel, {comm.ring(comm.rank() + distance), out},
              {comm.ring(comm.rank() - distance), into, combine});
}

}  // namespace

Task<> pairwise_average(Comm& comm, Channel channel, std::span<float> weights, int passes) {
  if (comm.size() == 1) co_return;
  if (passes >= comm.size() - 1) {
    co_await mean_of_all(comm, channel, weights);
    co_return;
  }
  channel = channel.in("a pairwise exchange");
  if (passes == 1) {
    co_await shift(comm, channel, 1, weights, weights, average);
    co_return;
  }
  auto own = comm.lend<float>(weights.size());
  std::copy(weights.begin(), weights.end(), own.span().begin());
  for (const WindowStep& step : window_steps(passes + 1)) {
    const std::span<float> out = step.width == 1 ? own.span() : weights;
    co_await shift(comm, channel, step.distance, out, weights, add);
  }
  scale(weights, 1.0f / static_cast<float>(passes + 1));
}

Task<> exponential_average(Comm& comm, Channel channel, std::span<float> weights,
                           std::uint64_t round) {
  if (comm.size() == 1) co_return;
  co_await shift(comm, channel.in("an exponential exchange"),
                 exponential_distance(comm.size(), round), weights, weights, average);
}

Task<> mean_of_all(Comm& comm, Channel channel, std::span<float> weights) {
  co_await ring_allreduce(comm, channel, weights);
  scale(weights, 1.0f / static_cast<float>(comm.size()));
}

double pairwise_vectors_sent(int size, int passes) {
  if (passes >= size - 1) return 2.0 * (size - 1) / size;
  return static_cast<double>(window_steps(passes + 1).size());
}

}  // namespace starling
