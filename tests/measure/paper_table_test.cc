// What the paper ran, counted by hand from its pages.
#include "measure/paper_table.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace starling {
namespace {

TEST(PaperTable, OneIsPassesTimesIterationsForEachNumberOfWorkers) {
  const auto all = paper_configurations();
  EXPECT_EQ(all.size(), 1u + 2 * 2 + 3 * 3 + 4 * 4 + 5 * 4);
  const auto has = [&](int workers, int passes, int iterations) {
    return std::ranges::count_if(all, [&](const PaperConfiguration& each) {
      return each.workers == workers && each.passes == passes && each.iterations == iterations;
    });
  };
  EXPECT_EQ(has(2, 1, 12), 1);
  EXPECT_EQ(has(3, 2, 15), 1);
  EXPECT_EQ(has(4, 3, 18), 1);
  EXPECT_EQ(has(5, 1, 18), 1) << "figure 3";
  EXPECT_EQ(has(5, 4, 21), 1);
  EXPECT_EQ(has(6, 5, 24), 1);
  EXPECT_EQ(has(6, 1, 21), 0);
  EXPECT_EQ(has(5, 5, 12), 0) << "all-reduce is table 2's";
}

TEST(PaperTable, TwoTakesThreeIterationsMoreForEachPassLess) {
  const auto rows = paper_table();
  EXPECT_EQ(rows.size(), 20u);
  for (const PaperRow& row : rows) {
    EXPECT_EQ(row.iterations, 12 + 3 * (row.workers - row.passes));
  }
}

}  // namespace
}  // namespace starling
