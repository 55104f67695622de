// Who averages with whom: pure functions from (rank, size, round) to peers and weights.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace starling {

// The one-peer exponential graph: in round t a worker averages with the rank 2^(t mod log2 n)
// before it. For n a power of two, log2 n rounds reach the exact mean.
inline int exponential_distance(int size, std::uint64_t round) {
  if (size < 2) return 0;
  const auto hops = static_cast<std::uint64_t>(std::bit_width(static_cast<unsigned>(size - 1)));
  return 1 << (round % hops);
}

// The mixing matrix of one pairwise round: row i holds the weight of every rank in worker i's new
// value.
std::vector<std::vector<double>> window_matrix(int size, int passes);

// By how much one pairwise round with one pass shrinks the spread around the mean: cos(pi / n).
double pairwise_contraction(int size);

// How the sum over a window of `ranks` consecutive ranks is built: each step adds the partial sum
// of `width` ranks that the rank `distance` before us holds. Doubling adds what we hold ourselves
// (width == what is summed so far); an odd window adds a single value (width == 1).
struct WindowStep {
  int distance;
  int width;
};
std::vector<WindowStep> window_steps(int ranks);

}  // namespace starling
