// Graphs of workers: who hears whom, and how much weight each gives to what it hears.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "topology/graph_settings.h"

namespace starling {

// A graph may change from round to round; after its last round it begins again.
class Graph {
 public:
  // heard[round][rank]: the ranks that `rank` hears in that round, without itself, sorted, each
  // once.
  explicit Graph(std::vector<std::vector<std::vector<int>>> heard);

  int size() const { return static_cast<int>(heard_[0].size()); }
  std::uint64_t rounds() const { return heard_.size(); }

  // Sorted; `round` counts on and on, it is taken modulo rounds().
  std::span<const int> hears(int rank, std::uint64_t round = 0) const;
  std::span<const int> tells(int rank, std::uint64_t round = 0) const;

  // Whoever hears is heard by the same, in every round.
  bool symmetric() const { return heard_ == told_; }

  // Somebody whose weights never reach somebody, not even over others and over many rounds.
  struct Unheard {
    int from;
    int to;
    bool operator==(const Unheard&) const = default;
  };
  std::optional<Unheard> unheard() const;
  bool connected() const { return !unheard(); }

 private:
  using Rounds = std::vector<std::vector<std::vector<int>>>;

  std::vector<bool> reached_from_first(const Rounds& edges) const;

  Rounds heard_;
  Rounds told_;
};

//   window              the `passes` ring predecessors (all others if there are fewer); where passes
//                       mean groups, those in the same group in that round (topology/mixing.h)
//   closed-ring         both ring neighbours
//   exponential         one peer a round: in round t, the rank 2^(t mod ceil(log2 n)) before
//   static-exponential  all of those at once
//   tree                parent and children; rank 0 is the root, (r - 1) / arity is r's parent
//   star                rank 0 hears everybody, everybody hears rank 0
//   mesh                everybody hears everybody
//   file                as the file says; it must connect everybody
// For any size from 1 on. Throws Error for senseless numbers or a bad file.
Graph make_graph(const GraphSettings& settings);

// The same for one rank alone, in each round, without looking at the others; for all but a file.
struct Links {
  std::vector<int> heard, told;  // sorted, without itself
};
std::vector<Links> links_of(const GraphSettings& settings, int rank);
// How many a rank hears at the most; 0 on a ring, where all hear as many.
std::size_t degree_in(const GraphSettings& settings, int rank);

// How a round mixes the workers' values: row i holds the weight of every rank in i's new value.
using Matrix = std::vector<std::vector<double>>;

// Everybody takes the plain mean of itself and those it hears. Rows sum to one; where some are
// heard more than others columns do not, and the workers agree on a weighted mean.
Matrix mean_matrix(const Graph& graph, std::uint64_t round = 0);

// Metropolis weights: 1 / (1 + the larger degree of the two), the rest for oneself. Rows and
// columns sum to one, so the workers agree on the mean. Throws Error unless the graph is symmetric.
Matrix metropolis_matrix(const Graph& graph, std::uint64_t round = 0);

// Push-sum: everybody splits what it has evenly between itself and those it tells. Columns sum to
// one: nothing is lost, and the mean comes from dividing by a weight that is pushed alike.
Matrix push_matrix(const Graph& graph, std::uint64_t round = 0);

// On a closed ring of that many: how much the one before, a worker itself and the one after it count.
// Rows and columns sum to one. Of two workers, the other stands before and after.
Matrix merge_matrix(int size, std::span<const double> weights);

// What the graph's weights are where nobody says otherwise: Metropolis's where whoever hears is heard,
// else the plain mean's.
Matrix mixing_weights(const Graph& graph, std::uint64_t round = 0);

// How each round of that graph, which is made of these settings, mixes: as its weights say, unless
// the settings say otherwise.
std::vector<Matrix> round_matrices(const GraphSettings& settings, const Graph& graph);

}  // namespace starling
