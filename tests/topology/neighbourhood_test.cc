// A worker's own view of its graph, beside the whole graph and its matrix.
#include "topology/neighbourhood.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/temporary_folder.h"
#include "tests/error_of.h"

namespace starling {
namespace {

void expect_as_in_the_whole(const GraphSettings& settings) {
  const Graph graph = make_graph(settings);
  for (int rank = 0; rank < settings.size; ++rank) {
    const Neighbourhood mine(settings, rank);
    ASSERT_EQ(mine.rounds(), graph.rounds());
    for (std::uint64_t round = 0; round < 2 * graph.rounds(); ++round) {
      SCOPED_TRACE(testing::Message() << name_of(settings.kind) << " of " << settings.size
                                      << ", rank " << rank << " in round " << round);
      const auto heard = mine.hears(round);
      EXPECT_TRUE(std::ranges::equal(heard, graph.hears(rank, round)));
      EXPECT_TRUE(std::ranges::equal(mine.tells(round), graph.tells(rank, round)));
      const Matrix matrix = settings.merge_weights.empty()
                                ? mixing_weights(graph, round)
                                : merge_matrix(settings.size, settings.merge_weights);
      ASSERT_EQ(mine.weights(round).size(), heard.size());
      for (std::size_t i = 0; i < heard.size(); ++i) {
        EXPECT_EQ(mine.weights(round)[i],
                  matrix[static_cast<std::size_t>(rank)][static_cast<std::size_t>(heard[i])]);
      }
    }
  }
}

TEST(Neighbourhood, IsAWorkersPartOfEveryGraph) {
  for (const char* name :
       {"window", "closed-ring", "exponential", "static-exponential", "tree", "star", "mesh"}) {
    for (int size : {1, 2, 3, 4, 5, 8, 13}) {
      for (int number : {1, 2, 3}) {
        expect_as_in_the_whole({named<GraphSettings::Kind>(name), size, number, number, ""});
      }
    }
  }
}

TEST(Neighbourhood, IsAWorkersPartOfGroups) {
  for (int size : {1, 2, 3, 4, 5, 8, 13}) {
    for (int passes = 1; passes <= size; ++passes) {
      expect_as_in_the_whole(
          {.size = size, .passes = passes, .passes_mean = GraphSettings::Passes::group});
    }
  }
}

TEST(Neighbourhood, IsAWorkersPartOfAMergeOfThree) {
  for (int size : {1, 2, 3, 4, 5, 8, 13}) {
    expect_as_in_the_whole(
        {.kind = GraphSettings::Kind::closed_ring, .size = size, .merge_weights = {1, 3, 2}});
  }
}

TEST(Neighbourhood, IsAWorkersPartOfAFile) {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "graph";
  for (const char* edges : {"0 1\n1 2\n1 3\n", "0 -> 1\n1 -> 2\n2 -> 0\n0 -> 3\n3 -> 1\n"}) {
    std::ofstream(file) << edges;
    expect_as_in_the_whole({GraphSettings::Kind::file, 4, 1, 2, file});
  }
}

TEST(Neighbourhood, RefusesWhatIsNoGraph) {
  const GraphSettings tree{.kind = GraphSettings::Kind::tree, .size = 3, .arity = 0};
  EXPECT_TRUE(error_of([&] { Neighbourhood(tree, 0); }).starts_with("a tree of arity"));
}

// Thousands of workers, each with its own: no rank may build what all of them need.
TEST(Neighbourhood, OfAMillionWorkersIsSmall) {
  for (const char* name : {"window", "closed-ring", "exponential", "static-exponential", "tree"}) {
    const Neighbourhood mine({named<GraphSettings::Kind>(name), 1'000'000, 2, 3, ""}, 999'999);
    EXPECT_LE(mine.hears().size(), 20u) << name;
  }
}

}  // namespace
}  // namespace starling
