// Graphs as lists of whom each rank hears.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "topology/graph.h"

namespace starling {

using Heard = std::vector<std::vector<int>>;

// A graph that is the same in every round.
inline Graph constant(Heard heard) { return Graph(std::vector<Heard>{std::move(heard)}); }

inline Heard heard(const Graph& graph, std::uint64_t round = 0) {
  Heard result;
  for (int rank = 0; rank < graph.size(); ++rank) {
    const auto ranks = graph.hears(rank, round);
    result.emplace_back(ranks.begin(), ranks.end());
  }
  return result;
}

}  // namespace starling
