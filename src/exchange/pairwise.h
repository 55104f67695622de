// Averaging with a few instead of with all: the exchanges of the decentral systems.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/group.h"

namespace starling {

// w_i <- mean(w_i, w_{i-1}, ..., w_{i-passes}) around the ring. passes = 1 is iterative pair-wise
// averaging; passes >= n - 1 is the average over all, by ring all-reduce.
Task<> pairwise_average(Group group, Channel channel, std::span<float> weights, int passes);

// One round of the one-peer exponential graph: w_i <- (w_i + w_{i - 2^(round mod log2 n)}) / 2.
Task<> exponential_average(Group group, Channel channel, std::span<float> weights,
                           std::uint64_t round);

// The average over all by ring all-reduce.
Task<> mean_of_all(Group group, Channel channel, std::span<float> weights);

// How often a rank sends its whole vector in one pairwise_average, e.g. 1 for one pass and 2
// (n-1)/n for all.
double pairwise_vectors_sent(int size, int passes);
// The same within a group of that many, by mean_of_all.
inline double mean_vectors_sent(int size) { return 2.0 * (size - 1) / size; }

}  // namespace starling
