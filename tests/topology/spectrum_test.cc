#include "topology/spectrum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>
#include <vector>

#include "base/random.h"
#include "tests/topology/heard.h"
#include "topology/graph_file.h"
#include "topology/mixing.h"

namespace starling {
namespace {

using Vector = std::vector<double>;
using Rounds = std::vector<Matrix>;
using Weights = std::function<Matrix(const Graph&, std::uint64_t)>;

Rounds all_rounds(const Graph& graph, const Weights& weights) {
  Rounds matrices;
  for (std::uint64_t round = 0; round < graph.rounds(); ++round) {
    matrices.push_back(weights(graph, round));
  }
  return matrices;
}

double contraction_of(const GraphSettings& settings, const Weights& weights) {
  return contraction(all_rounds(make_graph(settings), weights));
}

// The same workers under other numbers.
Rounds renumbered(const Rounds& rounds, std::uint64_t seed) {
  const std::size_t n = rounds[0].size();
  std::vector<std::size_t> names(n);
  std::iota(names.begin(), names.end(), 0);
  Random{seed}.shuffle(std::span(names));
  Rounds result(rounds.size(), Matrix(n, Vector(n)));
  for (std::size_t round = 0; round < rounds.size(); ++round) {
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t k = 0; k < n; ++k) {
        result[round][names[i]][names[k]] = rounds[round][i][k];
      }
    }
  }
  return result;
}

TEST(Contraction, OfAWindowOfOnePassIsTheCosineOfPiOverN) {
  for (int size = 1; size <= 40; ++size) {
    EXPECT_NEAR(contraction_of({.kind = GraphSettings::Kind::window, .size = size}, mean_matrix),
                pairwise_contraction(size), 1e-9)
        << size;
  }
}

TEST(Contraction, OfAClosedRingIsThatOfItsSlowestWave) {
  for (int size = 3; size <= 40; ++size) {
    const auto wave = [size](int length) {
      return std::abs(1.0 / 3 + 2.0 / 3 * std::cos(2 * std::numbers::pi * length / size));
    };
    EXPECT_NEAR(
        contraction_of({.kind = GraphSettings::Kind::closed_ring, .size = size}, metropolis_matrix),
        std::max(wave(1), wave(size / 2)), 1e-9)
        << size;
  }
}

TEST(Contraction, OfAPathIsTheCosineToo) {
  for (int size = 2; size <= 40; ++size) {
    EXPECT_NEAR(contraction_of({.kind = GraphSettings::Kind::tree, .size = size, .arity = 1},
                               metropolis_matrix),
                size == 2 ? 0 : 1.0 / 3 + 2.0 / 3 * std::cos(std::numbers::pi / size), 1e-9)
        << size;
  }
}

TEST(Contraction, OfAStarIsAllButOneOverN) {
  for (int size = 3; size <= 40; ++size) {
    EXPECT_NEAR(
        contraction_of({.kind = GraphSettings::Kind::star, .size = size}, metropolis_matrix),
        1 - 1.0 / size, 1e-9)
        << size;
  }
}

TEST(Contraction, IsZeroForTheExactMean) {
  for (int size : {1, 2, 3, 6, 7, 64, 100}) {
    EXPECT_EQ(contraction_of({.kind = GraphSettings::Kind::mesh, .size = size}, mean_matrix), 0)
        << size;
    EXPECT_EQ(contraction_of({.kind = GraphSettings::Kind::window, .size = size, .passes = size},
                             mean_matrix),
              0);
  }
  for (int size : {1, 2, 4, 8, 16, 64, 128}) {
    EXPECT_EQ(contraction_of({.kind = GraphSettings::Kind::exponential, .size = size}, mean_matrix),
              0)
        << size;
  }
}

TEST(Contraction, OfTheExponentialGraphIsNotZeroBetweenPowersOfTwo) {
  for (int size : {3, 5, 6, 7, 12, 33}) {
    EXPECT_GT(contraction_of({.kind = GraphSettings::Kind::exponential, .size = size}, mean_matrix),
              0.1)
        << size;
  }
}

TEST(Contraction, IsOneIfSomeNeverHear) {
  EXPECT_NEAR(contraction(Rounds{mean_matrix(constant({{1}, {0}, {3}, {2}}))}), 1, 1e-9);
  // Two deaf workers and one that hears both.
  EXPECT_NEAR(contraction(Rounds{mean_matrix(constant({{}, {}, {0, 1}}))}), 1, 1e-9);
  EXPECT_NEAR(contraction(Rounds{Matrix{{1, 0}, {0, 1}}}), 1, 1e-9);
  // Workers that only swap their values never agree either.
  EXPECT_NEAR(contraction(Rounds{Matrix{{0, 1, 0}, {1, 0, 0}, {0, 0, 1}}}), 1, 1e-9);
}

TEST(Contraction, OfASingleWorkerIsZero) {
  EXPECT_EQ(contraction(Rounds{Matrix{{1}}}), 0);
  EXPECT_EQ(spectral_gap(Rounds{Matrix{{1}}}), 1);
}

// With eigenvalues that can be read off: 1 and 0.5; 1, 0.7 and 0.2 on the diagonal of a triangle.
TEST(Contraction, ReadsRowsOrColumns) {
  EXPECT_NEAR(contraction(Rounds{Matrix{{0.75, 0.25}, {0.25, 0.75}}}), 0.5, 1e-9);
  EXPECT_NEAR(contraction(Rounds{Matrix{{1, 0, 0}, {0.3, 0.7, 0}, {0.4, 0.4, 0.2}}}), 0.7, 1e-9);
  EXPECT_NEAR(contraction(Rounds{Matrix{{1, 0.3, 0.4}, {0, 0.7, 0.4}, {0, 0, 0.2}}}), 0.7, 1e-9);
}

TEST(Contraction, SeesThatSomeRoundsForgetEverything) {
  // Squaring gives agreement, though the matrix itself is far from it.
  EXPECT_EQ(contraction(Rounds{Matrix{{1, 0, 0}, {1, 0, 0}, {0, 1, 0}}}), 0);
}

TEST(Contraction, IsPerRound) {
  const Matrix once = metropolis_matrix(make_graph({.kind = GraphSettings::Kind::tree, .size = 9}));
  const double one = contraction(Rounds{once});
  EXPECT_NEAR(contraction(Rounds{once, once, once}), one, 1e-9);
  const Matrix idle = mean_matrix(constant(Heard(9)));
  EXPECT_NEAR(contraction(Rounds{once, idle}), std::sqrt(one), 1e-9);
}

// Renumbered, a ring no longer looks like one and its eigenvalues come from squaring, not from
// waves.
TEST(Contraction, DoesNotDependOnTheRanksOrder) {
  for (const std::string name : {"window", "closed-ring", "exponential", "static-exponential"}) {
    for (int size : {5, 6, 8, 13, 24, 100}) {
      const auto rounds = all_rounds(
          make_graph({.kind = named<GraphSettings::Kind>(name), .size = size}), mean_matrix);
      EXPECT_NEAR(contraction(renumbered(rounds, 3)), contraction(rounds), 1e-8)
          << name << " of " << size;
    }
  }
}

TEST(Contraction, TellsSlowGraphsFromNever) {
  const auto rounds = all_rounds(
      make_graph({.kind = GraphSettings::Kind::closed_ring, .size = 200}), metropolis_matrix);
  const double gap = 2.0 / 3 * (1 - std::cos(2 * std::numbers::pi / 200));  // 0.00033
  EXPECT_NEAR(spectral_gap(rounds) / gap, 1, 1e-9);
  EXPECT_NEAR(spectral_gap(renumbered(rounds, 1)) / gap, 1, 1e-4);
}

// Mixes random values and sees how fast they draw together: removing the mean and scaling after
// each round keeps the numbers in range and changes nothing else.
double simulated_contraction(const Rounds& rounds, std::size_t steps) {
  const std::size_t n = rounds[0].size();
  Random random{n, steps};
  Vector x(n);
  for (double& value : x) value = random.normal();
  double logarithm = 0;
  for (std::size_t step = 0; step < 2 * steps; ++step) {
    Vector mixed;
    for (const Vector& row : rounds[step % rounds.size()]) {
      mixed.push_back(std::inner_product(row.begin(), row.end(), x.begin(), 0.0));
    }
    const double mean = std::accumulate(mixed.begin(), mixed.end(), 0.0) / static_cast<double>(n);
    double squares = 0;
    for (double& value : mixed) squares += (value - mean) * (value - mean);
    for (double& value : mixed) value = (value - mean) / std::sqrt(squares);
    x = mixed;
    // The first half is for the fast waves to die out.
    if (step >= steps) logarithm += std::log(squares) / 2;
  }
  return std::exp(logarithm / static_cast<double>(steps));
}

TEST(Contraction, IsTheRateAtWhichRandomValuesDrawTogether) {
  for (const std::string name :
       {"window", "closed-ring", "exponential", "static-exponential", "tree", "star"}) {
    for (int size : {3, 5, 6, 9}) {
      const Graph graph =
          make_graph({.kind = named<GraphSettings::Kind>(name), .size = size, .passes = 2});
      const auto rounds = all_rounds(graph, mean_matrix);
      const double rate = contraction(rounds);
      if (rate == 0) continue;  // nothing is left to measure
      const std::size_t steps = 200 / graph.rounds() * graph.rounds();
      EXPECT_NEAR(simulated_contraction(rounds, steps), rate, 0.01) << name << " of " << size;
    }
  }
}

// Backwards these three rounds draw together at another rate: 0.52 instead of 0.91.
TEST(Contraction, TakesRoundsInTheirOrder) {
  const Rounds rounds = {Matrix{{0, 0, 1}, {0.6, 0.4, 0}, {0.3, 0.4, 0.3}},
                         Matrix{{1, 0, 0}, {0.5, 0.5, 0}, {0, 0.5, 0.5}},
                         Matrix{{0.6, 0.4, 0}, {1, 0, 0}, {0, 0, 1}}};
  const Rounds backwards(rounds.rbegin(), rounds.rend());
  ASSERT_GT(std::abs(contraction(rounds) - contraction(backwards)), 0.3);
  EXPECT_NEAR(simulated_contraction(rounds, 300), contraction(rounds), 0.015);
  EXPECT_NEAR(simulated_contraction(backwards, 300), contraction(backwards), 0.015);
}

TEST(Contraction, HoldsForDirectedGraphsWhereSomeAreHeardMore) {
  Random random{11};
  for (int i = 0; i < 20; ++i) {
    const int size = 3 + static_cast<int>(random.below(10));
    std::string edges;
    for (int rank = 0; rank < size; ++rank) {
      edges += std::to_string(rank) + " -> " + std::to_string((rank + 1) % size) + "\n";
    }
    for (int extra = 0; extra < size; ++extra) {
      const auto n = static_cast<std::uint64_t>(size);
      const std::uint64_t from = random.below(n), to = random.below(n);
      if (from != to) edges += std::to_string(from) + " -> " + std::to_string(to) + "\n";
    }
    const Graph graph = parse_graph(edges, "random", size);
    const auto mean = all_rounds(graph, mean_matrix);
    EXPECT_NEAR(simulated_contraction(mean, 200), contraction(mean), 0.015) << edges;
    // Push-sum's columns sum to one; its eigenvalues are those of the transpose.
    const Matrix push = push_matrix(graph);
    Matrix back(push.size(), Vector(push.size()));
    for (std::size_t a = 0; a < push.size(); ++a) {
      for (std::size_t b = 0; b < push.size(); ++b) back[b][a] = push[a][b];
    }
    EXPECT_NEAR(simulated_contraction({back}, 200), contraction(Rounds{push}), 0.015) << edges;
  }
}

TEST(RoundsToShrinkTenfold, AreAsManyAsItTakesToPassATenth) {
  EXPECT_EQ(rounds_to_shrink_tenfold(0.05, 1), 1u);
  EXPECT_EQ(rounds_to_shrink_tenfold(0.5, 1), 4u);  // an eighth is too much, a sixteenth is not
  EXPECT_EQ(rounds_to_shrink_tenfold(0.99, 1), 230u);
}

TEST(RoundsToShrinkTenfold, AreAllRoundsWhereTheWorkersThenAgreeAndNoNumberWhereTheyNeverDo) {
  EXPECT_EQ(rounds_to_shrink_tenfold(0, 1), 1u);
  EXPECT_EQ(rounds_to_shrink_tenfold(0, 3), 3u);
  EXPECT_EQ(rounds_to_shrink_tenfold(1, 3), std::nullopt);
}

TEST(ContractionDeathTest, StopsOnWhatDoesNotMix) {
  EXPECT_DEATH(contraction({}), "nothing to mix");
  EXPECT_DEATH(contraction(Rounds{Matrix{{1, 1}, {0, 0.5}}}), "neither rows nor columns");
  EXPECT_DEATH(contraction(Rounds{Matrix{{1, 0}, {0.5}}}), "not 2 by 2");
  EXPECT_DEATH(contraction(Rounds{Matrix{{1}}, Matrix{{1, 0}, {0, 1}}}), "not 1 by 1");
}

}  // namespace
}  // namespace starling
