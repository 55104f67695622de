// What there is to know of a graph: with what weights its workers mix, how soon they agree, and how
// much each sends for that.
#pragma once

#include "topology/graph.h"

namespace starling {

struct GraphFindings {
  // How many models a worker sends a round, averaged over the rounds: least, most, and on average.
  struct Sent {
    double least = 0;
    double most = 0;
    double mean = 0;
  };

  Graph graph;
  std::vector<Matrix> weights;  // by round
  double contraction = 0;
  Sent sent;
  // Whether they agree on the mean of all; else some are heard more than others.
  bool keeps_the_mean = true;
};

GraphFindings examine(const GraphSettings& settings);

}  // namespace starling
