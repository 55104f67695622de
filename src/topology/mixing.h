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

// Of the mean with one's predecessor, so many times in a row: binomial weights.
std::vector<std::vector<double>> repeat_matrix(int size, int passes);

// Groups of `members` ranks that change from round to round, as cards are dealt: whoever stood first
// in the groups of one round stand side by side in the next, then those who stood second, and so on.
// If the size is no multiple, the last group is smaller. They begin again after ceil(log_members size)
// rounds, which reach the exact mean where the size is a power of `members`.
std::uint64_t dealing_rounds(int size, int members);
std::vector<std::vector<int>> dealt_groups(int size, int members, std::uint64_t round);

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
