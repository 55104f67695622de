#include "topology/neighbourhood.h"

#include <algorithm>

namespace starling {

namespace {

// Metropolis's weights where whoever hears is heard, else equal ones. On a ring all have the same
// degree, so that both are the same.
template <class DegreeOf>
std::vector<double> weights_of(const Links& links, const DegreeOf& degree_of) {
  std::vector<double> weights;
  for (int from : links.heard) {
    const std::size_t degree = std::max(links.heard.size(), degree_of(from));
    weights.push_back(1.0 / static_cast<double>(degree + 1));
  }
  return weights;
}

// On a closed ring, as the settings have it.
std::vector<double> merge_weights_of(const GraphSettings& settings, const Links& links, int rank) {
  const std::vector<double>& merge = settings.merge_weights;
  std::vector<double> weights;
  for (int from : links.heard) {
    double weight = 0;  // of two workers, the other stands before and after
    if ((from + 1) % settings.size == rank) weight += merge[0];
    if ((rank + 1) % settings.size == from) weight += merge[2];
    weights.push_back(weight / (merge[0] + merge[1] + merge[2]));
  }
  return weights;
}

}  // namespace

Neighbourhood::Neighbourhood(const GraphSettings& settings, int rank) {
  if (settings.kind == GraphSettings::Kind::file) {
    const Graph graph = make_graph(settings);
    const bool symmetric = graph.symmetric();
    for (std::uint64_t round = 0; round < graph.rounds(); ++round) {
      const auto heard = graph.hears(rank, round), told = graph.tells(rank, round);
      Links links{{heard.begin(), heard.end()}, {told.begin(), told.end()}};
      std::vector<double> weights = weights_of(
          links, [&](int from) { return symmetric ? graph.hears(from, round).size() : 0; });
      rounds_.push_back({std::move(links), std::move(weights)});
    }
    return;
  }
  for (Links& links : links_of(settings, rank)) {
    std::vector<double> weights =
        settings.merge_weights.empty()
            ? weights_of(links, [&](int from) { return degree_in(settings, from); })
            : merge_weights_of(settings, links, rank);
    rounds_.push_back({std::move(links), std::move(weights)});
  }
}

}  // namespace starling
