#include "topology/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/check.h"
#include "base/error.h"
#include "topology/graph_file.h"
#include "topology/mixing.h"

namespace starling {

namespace {

using Heard = std::vector<std::vector<int>>;  // one round, by rank

std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

// 1, 2 ... count
std::vector<int> up_to(int count) {
  std::vector<int> distances(at(count));
  std::iota(distances.begin(), distances.end(), 1);
  return distances;
}

// Both neighbours of two workers are the same one.
std::vector<int> neighbours(int size) {
  if (size == 1) return {};
  return size == 2 ? std::vector{1} : std::vector{1, size - 1};
}

std::vector<int> powers_of_two(int size) {
  std::vector<int> distances;
  for (int distance = 1; distance < size; distance *= 2) distances.push_back(distance);
  return distances;
}

// At which distances on the ring everybody hears others, in each round; nothing if the graph is no
// ring.
std::optional<std::vector<std::vector<int>>> ring_distances(const GraphSettings& settings) {
  const int size = settings.size, passes = settings.passes;
  switch (settings.kind) {
    using enum GraphSettings::Kind;
    case window:
      if (passes < 1) throw Error(fmt::format("a window of {} passes", passes), "take 1 or more");
      return {{up_to(std::min(passes, size - 1))}};
    case closed_ring:
      return {{neighbours(size)}};
    case static_exponential:
      return {{powers_of_two(size)}};
    case mesh:
      return {{up_to(size - 1)}};
    case exponential: {
      std::vector<std::vector<int>> one_a_round;
      for (int distance : powers_of_two(size)) one_a_round.push_back({distance});
      if (one_a_round.empty()) one_a_round.emplace_back();
      return one_a_round;
    }
    case tree:
    case star:
    case file:
      break;
  }
  return std::nullopt;
}

Links ring_links(int size, int rank, const std::vector<int>& distances) {
  Links links;
  for (int distance : distances) {
    links.heard.push_back((rank - distance + size) % size);
    links.told.push_back((rank + distance) % size);
  }
  std::ranges::sort(links.heard);
  std::ranges::sort(links.told);
  return links;
}

// By round: those in the same group.
std::vector<Links> group_links(const GraphSettings& settings, int rank) {
  const int members = std::min(settings.passes + 1, settings.size);
  std::vector<Links> links(dealing_rounds(settings.size, members));
  for (std::uint64_t round = 0; round < links.size(); ++round) {
    for (std::vector<int>& group : dealt_groups(settings.size, members, round)) {
      if (std::erase(group, rank) == 0) continue;
      std::ranges::sort(group);
      links[round] = {group, group};
    }
  }
  return links;
}

// Rank 0 is the root; children come after their parent and in order, so the list is sorted.
Links tree_links(int size, int arity, int rank) {
  Links links;
  if (rank > 0) links.heard.push_back((rank - 1) / arity);
  const int last = std::min(size - 1, rank * arity + arity);
  for (int child = rank * arity + 1; child <= last; ++child) links.heard.push_back(child);
  links.told = links.heard;
  return links;
}

// A star is a tree whose root has all others for children.
bool is_tree(const GraphSettings& settings) {
  using enum GraphSettings::Kind;
  return settings.kind == tree || settings.kind == star;
}

int arity_of(const GraphSettings& settings) {
  if (settings.kind == GraphSettings::Kind::star) return settings.size;
  if (settings.arity < 1) {
    throw Error(fmt::format("a tree of arity {}", settings.arity), "take 1 or more");
  }
  return settings.arity;
}

Matrix zeros(const Graph& graph) {
  return Matrix(at(graph.size()), std::vector<double>(at(graph.size()), 0.0));
}

}  // namespace

Graph::Graph(Rounds heard) : heard_(std::move(heard)) {
  STARLING_CHECK(!heard_.empty() && !heard_[0].empty(), "a graph without workers");
  told_.assign(heard_.size(), Heard(heard_[0].size()));
  for (std::size_t round = 0; round < heard_.size(); ++round) {
    STARLING_CHECK(heard_[round].size() == heard_[0].size(), "{} workers in round {}, {} before",
                   heard_[round].size(), round, heard_[0].size());
    for (int rank = 0; rank < size(); ++rank) {
      int last = -1;
      for (int from : heard_[round][at(rank)]) {
        STARLING_CHECK(from > last && from < size() && from != rank,
                       "rank {} hears {} after {} in round {}", rank, from, last, round);
        last = from;
        told_[round][at(from)].push_back(rank);
      }
    }
  }
}

std::span<const int> Graph::hears(int rank, std::uint64_t round) const {
  STARLING_CHECK(rank >= 0 && rank < size(), "rank {} of {}", rank, size());
  return heard_[round % rounds()][at(rank)];
}

std::span<const int> Graph::tells(int rank, std::uint64_t round) const {
  STARLING_CHECK(rank >= 0 && rank < size(), "rank {} of {}", rank, size());
  return told_[round % rounds()][at(rank)];
}

// Everybody reaches everybody exactly if all hear of rank 0 and rank 0 hears of all.
std::optional<Graph::Unheard> Graph::unheard() const {
  const std::vector<bool> knows_first = reached_from_first(told_);
  const std::vector<bool> known_to_first = reached_from_first(heard_);
  for (int rank = 0; rank < size(); ++rank) {
    if (!knows_first[at(rank)]) return Unheard{0, rank};
    if (!known_to_first[at(rank)]) return Unheard{rank, 0};
  }
  return std::nullopt;
}

std::vector<bool> Graph::reached_from_first(const Rounds& edges) const {
  std::vector<bool> reached(at(size()), false);
  reached[0] = true;
  std::vector<int> open = {0};
  while (!open.empty()) {
    const int rank = open.back();
    open.pop_back();
    for (const Heard& round : edges) {
      for (int next : round[at(rank)]) {
        if (reached[at(next)]) continue;
        reached[at(next)] = true;
        open.push_back(next);
      }
    }
  }
  return reached;
}

std::vector<Links> links_of(const GraphSettings& settings, int rank) {
  const int size = settings.size;
  if (size < 1) throw Error(fmt::format("a graph of {} workers", size), "it needs at least 1");
  const auto rounds = ring_distances(settings);
  if (settings.in_groups()) return group_links(settings, rank);
  if (rounds) {
    std::vector<Links> links;
    for (const std::vector<int>& distances : *rounds) {
      links.push_back(ring_links(size, rank, distances));
    }
    return links;
  }
  STARLING_CHECK(is_tree(settings), "the links of a graph in a file are not known for one rank");
  return {tree_links(size, arity_of(settings), rank)};
}

std::size_t degree_in(const GraphSettings& settings, int rank) {
  if (!is_tree(settings)) return 0;
  const int arity = arity_of(settings);
  const int children = std::clamp(settings.size - 1 - rank * arity, 0, arity);
  return at(children + (rank > 0 ? 1 : 0));
}

Graph make_graph(const GraphSettings& settings) {
  if (settings.kind == GraphSettings::Kind::file) {
    if (settings.size < 1) {
      throw Error(fmt::format("a graph of {} workers", settings.size), "it needs at least 1");
    }
    if (settings.file.empty()) {
      throw Error("the graph 'file' has no file", "say which one holds its edges");
    }
    return read_graph_file(settings.file, settings.size);
  }
  std::vector<Heard> rounds(links_of(settings, 0).size());
  for (int rank = 0; rank < settings.size; ++rank) {
    std::vector<Links> links = links_of(settings, rank);
    for (std::size_t round = 0; round < rounds.size(); ++round) {
      rounds[round].push_back(std::move(links[round].heard));
    }
  }
  return Graph(std::move(rounds));
}

Matrix mean_matrix(const Graph& graph, std::uint64_t round) {
  Matrix matrix = zeros(graph);
  for (int rank = 0; rank < graph.size(); ++rank) {
    const auto heard = graph.hears(rank, round);
    const double share = 1.0 / static_cast<double>(heard.size() + 1);
    matrix[at(rank)][at(rank)] = share;
    for (int from : heard) matrix[at(rank)][at(from)] = share;
  }
  return matrix;
}

Matrix metropolis_matrix(const Graph& graph, std::uint64_t round) {
  if (!graph.symmetric()) {
    throw Error("Metropolis weights need a graph where whoever hears is heard",
                "take the plain mean, or push-sum, on a directed one");
  }
  Matrix matrix = zeros(graph);
  for (int rank = 0; rank < graph.size(); ++rank) {
    const auto heard = graph.hears(rank, round);
    double rest = 1;
    for (int from : heard) {
      const std::size_t degree = std::max(heard.size(), graph.hears(from, round).size());
      const double weight = 1.0 / static_cast<double>(degree + 1);
      matrix[at(rank)][at(from)] = weight;
      rest -= weight;
    }
    matrix[at(rank)][at(rank)] = rest;
  }
  return matrix;
}

Matrix push_matrix(const Graph& graph, std::uint64_t round) {
  Matrix matrix = zeros(graph);
  for (int rank = 0; rank < graph.size(); ++rank) {
    const auto told = graph.tells(rank, round);
    const double share = 1.0 / static_cast<double>(told.size() + 1);
    matrix[at(rank)][at(rank)] = share;
    for (int to : told) matrix[at(to)][at(rank)] = share;
  }
  return matrix;
}

Matrix merge_matrix(int size, std::span<const double> weights) {
  const double all = weights[0] + weights[1] + weights[2];
  Matrix matrix(at(size), std::vector<double>(at(size)));
  for (int rank = 0; rank < size; ++rank) {
    matrix[at(rank)][at((rank + size - 1) % size)] += weights[0] / all;
    matrix[at(rank)][at(rank)] += weights[1] / all;
    matrix[at(rank)][at((rank + 1) % size)] += weights[2] / all;
  }
  return matrix;
}

Matrix mixing_weights(const Graph& graph, std::uint64_t round) {
  return graph.symmetric() ? metropolis_matrix(graph, round) : mean_matrix(graph, round);
}

std::vector<Matrix> round_matrices(const GraphSettings& settings, const Graph& graph) {
  if (!settings.merge_weights.empty()) return {merge_matrix(settings.size, settings.merge_weights)};
  if (settings.repeats()) {
    return {repeat_matrix(settings.size, std::min(settings.passes, settings.size - 1))};
  }
  std::vector<Matrix> rounds;
  for (std::uint64_t round = 0; round < graph.rounds(); ++round) {
    rounds.push_back(mixing_weights(graph, round));
  }
  return rounds;
}

}  // namespace starling
