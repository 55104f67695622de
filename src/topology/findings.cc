#include "topology/findings.h"

#include <algorithm>
#include <cmath>

#include "topology/spectrum.h"

namespace starling {

namespace {

double models_sent(const Graph& graph, int rank) {
  double sum = 0;
  for (std::uint64_t round = 0; round < graph.rounds(); ++round) {
    sum += static_cast<double>(graph.tells(rank, round).size());
  }
  return sum / static_cast<double>(graph.rounds());
}

bool columns_sum_to_one(const Matrix& weights) {
  for (std::size_t k = 0; k < weights.size(); ++k) {
    double sum = 0;
    for (const auto& row : weights) sum += row[k];
    if (std::abs(sum - 1) > 1e-9) return false;
  }
  return true;
}

}  // namespace

GraphFindings examine(const GraphSettings& settings) {
  GraphFindings found{.graph = make_graph(settings), .weights = {}, .sent = {}};
  const Graph& graph = found.graph;
  found.weights = round_matrices(settings, graph);
  found.contraction = contraction(found.weights);
  found.sent.least = graph.size();
  for (int rank = 0; rank < graph.size(); ++rank) {
    const double sent = models_sent(graph, rank);
    found.sent.least = std::min(found.sent.least, sent);
    found.sent.most = std::max(found.sent.most, sent);
    found.sent.mean += sent / graph.size();
  }
  found.keeps_the_mean = std::ranges::all_of(found.weights, columns_sum_to_one);
  return found;
}

}  // namespace starling
