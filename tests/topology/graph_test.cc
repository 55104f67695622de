#include "topology/graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "base/error.h"
#include "tests/topology/heard.h"
#include "topology/mixing.h"

namespace starling {
namespace {

const std::vector<std::string> kMade = {
    "window", "closed-ring", "exponential", "static-exponential", "tree", "star", "mesh"};

std::vector<double> row_sums(const Matrix& matrix) {
  std::vector<double> sums;
  for (const auto& row : matrix) sums.push_back(std::accumulate(row.begin(), row.end(), 0.0));
  return sums;
}

std::vector<double> column_sums(const Matrix& matrix) {
  std::vector<double> sums(matrix.size(), 0.0);
  for (const auto& row : matrix) {
    std::transform(row.begin(), row.end(), sums.begin(), sums.begin(), std::plus<>());
  }
  return sums;
}

void expect_ones(const std::vector<double>& sums, const std::string& what) {
  for (double sum : sums) EXPECT_NEAR(sum, 1, 1e-12) << what;
}

std::string refusal(const GraphSettings& settings) {
  try {
    make_graph(settings);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Graph, TellsIsTheReverseOfHears) {
  const Graph graph(std::vector<Heard>{{{1, 2}, {2}, {}}, {{}, {0}, {0, 1}}});
  EXPECT_EQ(graph.size(), 3);
  EXPECT_EQ(graph.rounds(), 2u);
  const auto told = [&](int rank, std::uint64_t round) {
    const auto ranks = graph.tells(rank, round);
    return std::vector<int>(ranks.begin(), ranks.end());
  };
  EXPECT_EQ(told(0, 0), (std::vector<int>{}));
  EXPECT_EQ(told(1, 0), (std::vector<int>{0}));
  EXPECT_EQ(told(2, 0), (std::vector<int>{0, 1}));
  EXPECT_EQ(told(0, 1), (std::vector<int>{1, 2}));
  EXPECT_EQ(told(1, 1), (std::vector<int>{2}));
  EXPECT_EQ(told(2, 1), (std::vector<int>{}));
}

TEST(Graph, BeginsAgainAfterItsLastRound) {
  const Graph graph = make_graph({.kind = GraphSettings::Kind::exponential, .size = 6});
  for (std::uint64_t round = 0; round < 12; ++round) {
    EXPECT_EQ(heard(graph, round), heard(graph, round + 3)) << round;
  }
}

TEST(Graph, IsSymmetricIfWhoeverHearsIsHeardInTheSameRound) {
  EXPECT_TRUE(constant({{1}, {0}}).symmetric());
  EXPECT_FALSE(constant({{1}, {}}).symmetric());
  EXPECT_FALSE(Graph(std::vector<Heard>{{{1}, {}}, {{}, {0}}}).symmetric());  // one way a round
}

TEST(Graph, IsConnectedOverAllItsRoundsTogether) {
  EXPECT_TRUE(Graph(std::vector<Heard>{{{1}, {}}, {{}, {0}}}).connected());
  EXPECT_TRUE(constant(Heard(1)).connected());  // a single worker
  EXPECT_FALSE(constant({{}, {}}).connected());
}

TEST(Graph, NamesWhoIsNotHeard) {
  // 1 hears 0, but not the other way.
  EXPECT_EQ(constant({{}, {0}}).unheard(), (Graph::Unheard{.from = 1, .to = 0}));
  EXPECT_EQ(constant({{1}, {}}).unheard(), (Graph::Unheard{.from = 0, .to = 1}));
  // Two pairs.
  EXPECT_EQ(constant({{1}, {0}, {3}, {2}}).unheard(), (Graph::Unheard{.from = 0, .to = 2}));
}

TEST(GraphDeathTest, StopsOnListsThatAreNoGraph) {
  EXPECT_DEATH(Graph(std::vector<Heard>{}), "without workers");
  EXPECT_DEATH(constant({{0}, {}}), "hears 0");           // itself
  EXPECT_DEATH(constant({{2}, {}}), "hears 2");           // nobody
  EXPECT_DEATH(constant({{1, 1}, {}}), "hears 1 after");  // twice
  EXPECT_DEATH(Graph(std::vector<Heard>{{{1}, {0}}, Heard(1)}), "workers in round 1");
}

TEST(MakeGraph, DrawsTheGraphsOfItsNames) {
  EXPECT_EQ(heard(make_graph({.kind = GraphSettings::Kind::window, .size = 4})),
            (Heard{{3}, {0}, {1}, {2}}));
  EXPECT_EQ(heard(make_graph({.kind = GraphSettings::Kind::window, .size = 4, .passes = 2})),
            (Heard{{2, 3}, {0, 3}, {0, 1}, {1, 2}}));
  EXPECT_EQ(heard(make_graph({.kind = GraphSettings::Kind::closed_ring, .size = 4})),
            (Heard{{1, 3}, {0, 2}, {1, 3}, {0, 2}}));
  EXPECT_EQ(heard(make_graph({.kind = GraphSettings::Kind::closed_ring, .size = 2})),
            (Heard{{1}, {0}}));
  EXPECT_EQ(heard(make_graph({.kind = GraphSettings::Kind::static_exponential, .size = 5})),
            (Heard{{1, 3, 4}, {0, 2, 4}, {0, 1, 3}, {1, 2, 4}, {0, 2, 3}}));
  EXPECT_EQ(heard(make_graph({.kind = GraphSettings::Kind::tree, .size = 6})),
            (Heard{{1, 2}, {0, 3, 4}, {0, 5}, {1}, {1}, {2}}));
  EXPECT_EQ(heard(make_graph({.kind = GraphSettings::Kind::tree, .size = 4, .arity = 1})),
            (Heard{{1}, {0, 2}, {1, 3}, {2}}));
  EXPECT_EQ(heard(make_graph({.kind = GraphSettings::Kind::star, .size = 4})),
            (Heard{{1, 2, 3}, {0}, {0}, {0}}));
  EXPECT_EQ(heard(make_graph({.kind = GraphSettings::Kind::mesh, .size = 3})),
            (Heard{{1, 2}, {0, 2}, {0, 1}}));
}

TEST(MakeGraph, TheExponentialGraphHearsOnePeerARound) {
  const Graph graph = make_graph({.kind = GraphSettings::Kind::exponential, .size = 5});
  ASSERT_EQ(graph.rounds(), 3u);
  EXPECT_EQ(heard(graph, 0), (Heard{{4}, {0}, {1}, {2}, {3}}));
  EXPECT_EQ(heard(graph, 1), (Heard{{3}, {4}, {0}, {1}, {2}}));
  EXPECT_EQ(heard(graph, 2), (Heard{{1}, {2}, {3}, {4}, {0}}));
}

TEST(MakeGraph, ConnectsAnyNumberOfWorkers) {
  for (const std::string& name : kMade) {
    for (int size = 1; size <= 40; ++size) {
      const Graph graph = make_graph({.kind = named<GraphSettings::Kind>(name), .size = size});
      EXPECT_EQ(graph.size(), size) << name;
      EXPECT_TRUE(graph.connected()) << name << " of " << size;
      EXPECT_GE(graph.rounds(), 1u) << name << " of " << size;
    }
  }
}

TEST(MakeGraph, LeavesASingleWorkerAlone) {
  for (const std::string& name : kMade) {
    EXPECT_EQ(heard(make_graph({.kind = named<GraphSettings::Kind>(name)})), Heard(1)) << name;
    EXPECT_EQ(make_graph({.kind = named<GraphSettings::Kind>(name)}).rounds(), 1u) << name;
  }
}

TEST(MakeGraph, SymmetricAreClosedRingTreeStarAndMesh) {
  std::set<std::string> symmetric;
  for (const std::string& name : kMade) {
    if (make_graph({.kind = named<GraphSettings::Kind>(name), .size = 7}).symmetric())
      symmetric.insert(name);
  }
  EXPECT_EQ(symmetric, (std::set<std::string>{"closed-ring", "tree", "star", "mesh"}));
}

TEST(MakeGraph, AWindowOverAllIsAMesh) {
  const Heard mesh = heard(make_graph({.kind = GraphSettings::Kind::mesh, .size = 5}));
  EXPECT_EQ(heard(make_graph({.kind = GraphSettings::Kind::window, .size = 5, .passes = 4})), mesh);
  EXPECT_EQ(heard(make_graph({.kind = GraphSettings::Kind::window, .size = 5, .passes = 1000})),
            mesh);
}

TEST(MakeGraph, RefusesWhatItCannotDrawInOneLine) {
  EXPECT_EQ(refusal({.kind = GraphSettings::Kind::mesh, .size = 0}),
            "a graph of 0 workers; it needs at least 1");
  EXPECT_EQ(refusal({.kind = GraphSettings::Kind::window, .size = 4, .passes = 0}),
            "a window of 0 passes; take 1 or more");
  EXPECT_EQ(refusal({.kind = GraphSettings::Kind::tree, .size = 4, .arity = -1}),
            "a tree of arity -1; take 1 or more");
  EXPECT_EQ(refusal({.kind = GraphSettings::Kind::file, .size = 4}),
            "the graph 'file' has no file; say which one holds its edges");
  EXPECT_NE(refusal({.kind = GraphSettings::Kind::file, .size = 4, .file = "/nowhere/edges"})
                .find("is missing"),
            std::string::npos);
}

TEST(MeanMatrix, OfAWindowIsTheWindowMatrix) {
  for (int size = 1; size <= 12; ++size) {
    for (int passes = 1; passes < size; ++passes) {
      EXPECT_EQ(mean_matrix(make_graph(
                    {.kind = GraphSettings::Kind::window, .size = size, .passes = passes})),
                window_matrix(size, passes))
          << size << " ranks, " << passes << " passes";
    }
  }
}

TEST(MeanMatrix, WeighsAWorkerAndThoseItHearsAlike) {
  const double third = 1.0 / 3;
  EXPECT_EQ(mean_matrix(constant({{1, 2}, {0}, {}})),
            (Matrix{{third, third, third}, {0.5, 0.5, 0}, {0, 0, 1}}));
}

TEST(MetropolisMatrix, WeighsByTheLargerDegree) {
  // A path of three: the middle has two neighbours, so both edges weigh 1/3.
  const double third = 1.0 / 3;
  const Matrix path =
      metropolis_matrix(make_graph({.kind = GraphSettings::Kind::tree, .size = 3, .arity = 1}));
  const Matrix expected = {{2 * third, third, 0}, {third, third, third}, {0, third, 2 * third}};
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t k = 0; k < 3; ++k) EXPECT_NEAR(path[i][k], expected[i][k], 1e-15);
  }
}

TEST(MetropolisMatrix, RefusesADirectedGraph) {
  EXPECT_THROW(metropolis_matrix(make_graph({.kind = GraphSettings::Kind::window, .size = 3})),
               Error);
}

TEST(MixingMatrices, KeepTheSumsTheyPromise) {
  for (const std::string& name : kMade) {
    for (int size : {1, 2, 3, 6, 7, 16}) {
      const Graph graph = make_graph(
          {.kind = named<GraphSettings::Kind>(name), .size = size, .passes = 2, .arity = 3});
      for (std::uint64_t round = 0; round < graph.rounds(); ++round) {
        const std::string what = name + " of " + std::to_string(size);
        expect_ones(row_sums(mean_matrix(graph, round)), what);
        expect_ones(column_sums(push_matrix(graph, round)), what);
        if (!graph.symmetric()) continue;
        expect_ones(row_sums(metropolis_matrix(graph, round)), what);
        expect_ones(column_sums(metropolis_matrix(graph, round)), what);
      }
    }
  }
}

TEST(MixingMatrices, GiveWeightToOneselfAndThoseHeardOnly) {
  for (const std::string& name : kMade) {
    const Graph graph = make_graph({.kind = named<GraphSettings::Kind>(name), .size = 7});
    for (std::uint64_t round = 0; round < graph.rounds(); ++round) {
      std::vector<Matrix> matrices = {mean_matrix(graph, round), push_matrix(graph, round)};
      if (graph.symmetric()) matrices.push_back(metropolis_matrix(graph, round));
      for (const Matrix& matrix : matrices) {
        for (int i = 0; i < 7; ++i) {
          for (int k = 0; k < 7; ++k) {
            const bool hears = std::ranges::count(graph.hears(i, round), k) == 1 || i == k;
            EXPECT_EQ(matrix[static_cast<std::size_t>(i)][static_cast<std::size_t>(k)] > 0, hears)
                << name << ", " << i << " and " << k;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace starling
