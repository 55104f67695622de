#include "topology/findings.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <fstream>

#include "base/temporary_folder.h"
#include "topology/mixing.h"

namespace starling {
namespace {

TEST(GraphFindings, OfAWindowAreThoseOfPairwiseAveraging) {
  const GraphFindings found =
      examine({.kind = GraphSettings::Kind::window, .size = 6, .passes = 1});
  EXPECT_NEAR(found.contraction, pairwise_contraction(6), 1e-9);
  EXPECT_EQ(found.weights.size(), 1u);
  EXPECT_EQ(found.sent.least, 1);
  EXPECT_EQ(found.sent.most, 1);
  EXPECT_NEAR(found.sent.mean, 1, 1e-12);
  EXPECT_TRUE(found.keeps_the_mean);
}

TEST(GraphFindings, OfPassesThatRepeatAreThoseOfOneSoManyTimes) {
  for (int size : {2, 3, 5, 8, 13}) {
    for (int passes = 1; passes < size; ++passes) {
      const GraphFindings found =
          examine({.size = size, .passes = passes, .passes_mean = GraphSettings::Passes::repeat});
      EXPECT_NEAR(found.contraction, std::pow(pairwise_contraction(size), passes), 1e-9)
          << "n=" << size << " passes=" << passes;
      EXPECT_EQ(found.sent.least, passes);
      EXPECT_EQ(found.sent.most, passes);
      EXPECT_TRUE(found.keeps_the_mean);
    }
  }
}

TEST(GraphFindings, OfGroupsSayThatTheyMixHoweverManyWorkersThereAre) {
  for (int size = 1; size <= 64; ++size) {
    for (int passes = 1; passes < std::max(2, size); ++passes) {
      const GraphFindings found =
          examine({.size = size, .passes = passes, .passes_mean = GraphSettings::Passes::group});
      SCOPED_TRACE(testing::Message() << "n=" << size << " passes=" << passes);
      EXPECT_LT(found.contraction, 0.83);
      EXPECT_TRUE(found.graph.connected());
      EXPECT_TRUE(found.keeps_the_mean);
      EXPECT_EQ(found.sent.most, std::min(passes, size - 1));
    }
  }
}

TEST(GraphFindings, OfGroupsAreExactForPowersOfTheirSize) {
  for (const auto& [size, passes, rounds] :
       {std::array{4, 1, 2}, {8, 1, 3}, {9, 2, 2}, {16, 3, 2}, {27, 2, 3}, {64, 7, 2}}) {
    const GraphFindings found =
        examine({.size = size, .passes = passes, .passes_mean = GraphSettings::Passes::group});
    EXPECT_EQ(found.weights.size(), static_cast<std::size_t>(rounds));
    EXPECT_NEAR(found.contraction, 0, 1e-6) << "n=" << size << " passes=" << passes;
  }
}

TEST(GraphFindings, TellWhoSendsMoreThanOthers) {
  const GraphFindings found = examine({.kind = GraphSettings::Kind::star, .size = 5});
  EXPECT_EQ(found.sent.least, 1);
  EXPECT_EQ(found.sent.most, 4);
  EXPECT_NEAR(found.sent.mean, 8.0 / 5, 1e-12);
  EXPECT_TRUE(found.keeps_the_mean) << "with Metropolis's weights";
}

TEST(GraphFindings, CountARoundOfAGraphThatChanges) {
  const GraphFindings found = examine({.kind = GraphSettings::Kind::exponential, .size = 8});
  EXPECT_EQ(found.weights.size(), 3u);
  EXPECT_NEAR(found.contraction, 0, 1e-6) << "exact after all rounds";
  EXPECT_EQ(found.sent.most, 1);
}

TEST(GraphFindings, TellWhetherSomeAreHeardMoreThanOthers) {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "edges.txt";
  std::ofstream(file) << "0 -> 1\n1 -> 2\n2 -> 0\n0 -> 2\n";
  const GraphFindings found = examine({.kind = GraphSettings::Kind::file, .size = 3, .file = file});
  EXPECT_FALSE(found.keeps_the_mean);
  EXPECT_EQ(found.sent.most, 2);
}

}  // namespace
}  // namespace starling
