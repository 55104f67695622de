// What one worker must know of its graph: whom it hears, whom it tells, and how much weight it gives to
// what it hears. It does not hold what the others must know: a simulator may have thousands of
// workers, each with a neighbourhood of its own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "topology/graph.h"

namespace starling {

class Neighbourhood {
 public:
  // Throws Error as make_graph() does.
  Neighbourhood(const GraphSettings& settings, int rank);

  std::uint64_t rounds() const { return rounds_.size(); }

  // Sorted; `round` counts on and on, it is taken modulo rounds().
  std::span<const int> hears(std::uint64_t round = 0) const { return in(round).links.heard; }
  std::span<const int> tells(std::uint64_t round = 0) const { return in(round).links.told; }
  // Of each that it hears, in that order, as mixing_weights() or merge_matrix() has it.
  std::span<const double> weights(std::uint64_t round = 0) const { return in(round).weights; }

 private:
  struct Round {
    Links links;
    std::vector<double> weights;
  };
  const Round& in(std::uint64_t round) const { return rounds_[round % rounds_.size()]; }

  std::vector<Round> rounds_;
};

}  // namespace starling
