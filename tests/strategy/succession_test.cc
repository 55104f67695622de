#include "strategy/succession.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "sim/cluster.h"

namespace starling {
namespace {

using Donors = std::vector<std::optional<int>>;

TEST(Succession, AStepThatAnybodyEndedIsDoneWhereAllAreAlike) {
  // Of four, rank 2 is lost; rank 3 has ended round 8.
  const std::vector<Standing> standings = {{1, 7, 0, 4}, {1, 7, 1, 4}, {1, 8, 3, 4}};
  const Succession next = succession(standings, {{}, {}, {}}, true);
  EXPECT_EQ(next.done, (std::vector<std::uint64_t>{8, 8, 8, 8}));
  EXPECT_EQ(next.donors, (Donors{2, 2, std::nullopt}));
}

TEST(Succession, EachSpeaksForItselfElse) {
  const std::vector<Standing> standings = {{1, 7, 0, 4}, {1, 6, 1, 4}, {1, 8, 3, 4}, {}};
  const Hearsay known = {{7, 5, 2, 4}, {6, 6, 4, 8}, {7, 5, 3, 8}, {}};
  const Succession next = succession(standings, known, false);
  EXPECT_EQ(next.done, (std::vector<std::uint64_t>{7, 6, 4, 8}));
  EXPECT_EQ(next.donors, (Donors{std::nullopt, std::nullopt, std::nullopt, 2}));
}

TEST(Succession, WhoComesFromAnOlderGenerationKnowsNothing) {
  const std::vector<Standing> standings = {{4, 90, 0, 5}, {6, 2, 0, 2}, {}, {6, 2, 1, 2}};
  const Succession next = succession(standings, {{}, {2, 1}, {}, {2, 2}}, false);
  EXPECT_EQ(next.done, (std::vector<std::uint64_t>{2, 2}));
  EXPECT_EQ(next.donors, (Donors{3, std::nullopt, 1, std::nullopt}));
}

TEST(Succession, NobodyIsNoStart) {
  EXPECT_THROW(succession({{}, {}}, {{}, {}}, true), Error);
  EXPECT_THROW(succession({{1, 0, 4, 4}}, {{}}, true), Error);
  EXPECT_THROW(succession({{1, 0, 0, 4}, {1, 0, 1, 3}}, {{}, {}}, true), Error);
}

}  // namespace
}  // namespace starling
