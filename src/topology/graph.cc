#include "topology/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/error.h"
#include "topology/graph_file.h"
#include "topology/mixing.h"

namespace starling {

namespace {

using Heard = std::vector<std::vector<int>>;  // one round, by rank

std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

// Everybody hears the ranks at these distances before it on the ring.
Heard at_distances(int size, std::vector<int> distances) {
  Heard heard(at(size));
  for (int rank = 0; rank < size; ++rank) {
    for (int distance : distances) heard[at(rank)].push_back((rank - distance + size) % size);
    std::ranges::sort(heard[at(rank)]);
  }
  return heard;
}

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

Graph one_peer_exponential(int size) {
  std::vector<Heard> rounds;
  for (std::uint64_t round = 0; round < std::max<std::size_t>(1, powers_of_two(size).size());
       ++round) {
    const int distance = exponential_distance(size, round);
    rounds.push_back(
        at_distances(size, distance == 0 ? std::vector<int>{} : std::vector{distance}));
  }
  return Graph(std::move(rounds));
}

// Children come after their parent and in order, so the lists are sorted.
Heard complete_tree(int size, int arity) {
  Heard heard(at(size));
  for (int rank = 1; rank < size; ++rank) {
    const int parent = (rank - 1) / arity;
    heard[at(rank)].push_back(parent);
    heard[at(parent)].push_back(rank);
  }
  return heard;
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

Graph make_graph(const GraphSettings& settings) {
  const auto& [name, size, passes, arity, file] = settings;
  if (size < 1) throw Error(fmt::format("a graph of {} workers", size), "it needs at least 1");
  if (name == "window") {
    if (passes < 1) throw Error(fmt::format("a window of {} passes", passes), "take 1 or more");
    return Graph({at_distances(size, up_to(std::min(passes, size - 1)))});
  }
  if (name == "closed-ring") return Graph({at_distances(size, neighbours(size))});
  if (name == "exponential") return one_peer_exponential(size);
  if (name == "static-exponential") return Graph({at_distances(size, powers_of_two(size))});
  if (name == "tree") {
    if (arity < 1) throw Error(fmt::format("a tree of arity {}", arity), "take 1 or more");
    return Graph({complete_tree(size, arity)});
  }
  if (name == "star") return Graph({complete_tree(size, size)});
  if (name == "mesh") return Graph({at_distances(size, up_to(size - 1))});
  if (name == "file") {
    if (file.empty()) throw Error("the graph 'file' has no file", "say which one holds its edges");
    return read_graph_file(file, size);
  }
  throw Error(fmt::format("there is no graph '{}'", name),
              fmt::format("there are {}", kGraphNames));
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

}  // namespace starling
