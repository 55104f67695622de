#include "plan/exchange_trace.h"

#include <gtest/gtest.h>

#include "exchange/allreduce.h"
#include "exchange/pairwise.h"

namespace starling {
namespace {

constexpr Channel kTraced{1, Purpose::weights};

Exchange summing(const std::string& name) {
  Allreduce* algorithm = find_allreduce(name);
  return [algorithm](Comm& comm, std::span<float> values) {
    return algorithm(comm, kTraced, values, Reduction::sum);
  };
}
Task<> average(Comm& comm, std::span<float> values) {
  return pairwise_average(comm, kTraced, values, 1);
}

TEST(ExchangeTrace, ShowsARingCellByCell) {
  const ExchangeTrace ring = trace({{1, 2}, {10, 20}}, summing("ring"));
  ASSERT_EQ(ring.iterations.size(), 3u);
  EXPECT_EQ(ring.iterations[0].values, (Rows{{1, 2}, {10, 20}}));
  EXPECT_EQ(ring.iterations[1].sent.size(), 2u) << "each sends one of its two";
  EXPECT_EQ(ring.iterations[2].values, (Rows{{11, 22}, {11, 22}}));
}

TEST(ExchangeTrace, HidesPartialSumsOnceTheyAreSentOn) {
  const Visibility shown = visible_cells({{1, 2}, {10, 20}}, summing("ring"));
  const auto hidden = [](const auto& iteration) {
    std::ptrdiff_t count = 0;
    for (const auto& worker : iteration) count += std::ranges::count(worker, false);
    return count;
  };
  ASSERT_EQ(shown.size(), 3u);
  EXPECT_EQ(hidden(shown[0]), 0);
  EXPECT_EQ(hidden(shown[1]), 2);
  EXPECT_EQ(hidden(shown[2]), 0);
}

TEST(ExchangeTrace, ShowsWhereAllStandAfterEachRound) {
  const ExchangeTrace rounds = trace_rounds({{8}, {0}, {4}}, 2, average);
  ASSERT_EQ(rounds.iterations.size(), 3u);
  EXPECT_EQ(rounds.iterations[1].values, (Rows{{6}, {4}, {2}}));
  EXPECT_EQ(rounds.iterations[2].values, (Rows{{4}, {5}, {3}}));
}

TEST(ExchangeTrace, ShowsOnlyTheEndOfARoundOfSeveralMessages) {
  const Exchange two_passes = [](Comm& comm, std::span<float> values) {
    return pairwise_average(comm, kTraced, values, 2);
  };
  EXPECT_GT(trace({{9}, {0}, {3}, {6}}, two_passes).iterations.size(), 2u);
  const ExchangeTrace rounds = trace_rounds({{9}, {0}, {3}, {6}}, 1, two_passes);
  ASSERT_EQ(rounds.iterations.size(), 2u);
  EXPECT_EQ(rounds.iterations[1].values, (Rows{{6}, {5}, {4}, {3}}));
}

TEST(ExchangeTrace, ShowsHowMuchOfEverybodyAWorkerHolds) {
  const ExchangeTrace shares = trace_shares(3, 2, average);
  EXPECT_EQ(shares.iterations[0].values, (Rows{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}));
  EXPECT_EQ(shares.iterations[2].values[0], (std::vector<float>{0.25f, 0.25f, 0.5f}));
}

}  // namespace
}  // namespace starling
