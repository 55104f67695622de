#include "topology/mixing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>

#include "base/random.h"

namespace starling {
namespace {

using Matrix = std::vector<std::vector<double>>;
using Vector = std::vector<double>;

Vector times(const Matrix& matrix, const Vector& x) {
  Vector result;
  for (const Vector& row : matrix) {
    result.push_back(std::inner_product(row.begin(), row.end(), x.begin(), 0.0));
  }
  return result;
}

Matrix transposed(const Matrix& matrix) {
  Matrix result(matrix.size(), Vector(matrix.size()));
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    for (std::size_t k = 0; k < matrix.size(); ++k) result[k][i] = matrix[i][k];
  }
  return result;
}

void remove_mean(Vector& x) {
  const double mean = std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
  for (double& value : x) value -= mean;
}

double norm(const Vector& x) {
  return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0));
}

// The largest factor by which the matrix stretches a vector of mean zero: power iteration with
// its transpose times itself.
double stretch_of_what_is_not_mean(const Matrix& matrix) {
  const Matrix back = transposed(matrix);
  Random random{matrix.size()};
  Vector x(matrix.size());
  for (double& value : x) value = random.normal();
  double squared = 0;
  for (int i = 0; i < 500; ++i) {
    remove_mean(x);
    const double length = norm(x);
    if (length < 1e-12) return 0;
    for (double& value : x) value /= length;
    x = times(back, times(matrix, x));
    squared = norm(x);
  }
  return std::sqrt(squared);
}

TEST(WindowMatrix, RowsAndColumnsSumToOne) {
  for (int size = 1; size <= 12; ++size) {
    for (int passes = 1; passes <= std::max(1, size - 1); ++passes) {
      const Matrix matrix = window_matrix(size, passes);
      ASSERT_EQ(matrix.size(), static_cast<std::size_t>(size));
      for (const Matrix& each : {matrix, transposed(matrix)}) {
        for (const Vector& row : each) {
          EXPECT_NEAR(std::accumulate(row.begin(), row.end(), 0.0), 1.0, 1e-12)
              << size << " ranks, " << passes << " passes";
        }
      }
    }
  }
}

TEST(WindowMatrix, WeighsAWorkerAndItsPredecessorsAlike) {
  const double third = 1.0 / 3;
  EXPECT_EQ(window_matrix(4, 2), (Matrix{{third, 0, third, third},
                                         {third, third, 0, third},
                                         {third, third, third, 0},
                                         {0, third, third, third}}));
  EXPECT_EQ(window_matrix(3, 1), (Matrix{{0.5, 0, 0.5}, {0.5, 0.5, 0}, {0, 0.5, 0.5}}));
}

TEST(PairwiseContraction, IsTheSecondLargestSingularValueOfTheMixingMatrix) {
  EXPECT_EQ(pairwise_contraction(1), 0);
  for (int size : {2, 3, 4, 5, 6, 8, 13, 16}) {
    EXPECT_NEAR(pairwise_contraction(size), stretch_of_what_is_not_mean(window_matrix(size, 1)),
                1e-6)
        << size;
  }
}

// With a single step a power of the matrix shows its eigenvalues: they have the same modulus.
TEST(PairwiseContraction, IsTheSecondLargestEigenvalueOfTheMixingMatrix) {
  for (int size : {3, 4, 5, 8}) {
    const Matrix matrix = window_matrix(size, 1);
    Random random{2, static_cast<std::uint64_t>(size)};
    Vector x(matrix.size());
    for (double& value : x) value = random.normal();
    double logarithm = 0;
    constexpr int kSteps = 2000;
    for (int i = 0; i < kSteps; ++i) {
      remove_mean(x);
      const double length = norm(x);
      if (i > 0) logarithm += std::log(length);
      for (double& value : x) value /= length;
      x = times(matrix, x);
    }
    EXPECT_NEAR(std::exp(logarithm / (kSteps - 1)), pairwise_contraction(size), 1e-3) << size;
  }
}

// What a rank holds, as how often each distance back is in its sum. By symmetry the rank `distance`
// before us holds the same, shifted.
TEST(WindowSteps, SumExactlyTheLastConsecutiveRanks) {
  for (int ranks = 1; ranks <= 40; ++ranks) {
    std::map<int, int> held = {{0, 1}};  // distance back -> times it is in the sum
    for (const WindowStep& step : window_steps(ranks)) {
      const std::map<int, int> own = {{0, 1}};
      const std::map<int, int> before = held;
      const auto& arrives = step.width == 1 ? own : before;
      ASSERT_EQ(static_cast<int>(arrives.size()), step.width) << "the sender holds no such sum";
      for (const auto& [distance, times_there] : arrives) {
        held[distance + step.distance] += times_there;
      }
    }
    std::map<int, int> window;
    for (int distance = 0; distance < ranks; ++distance) window[distance] = 1;
    EXPECT_EQ(held, window) << ranks;
  }
}

TEST(WindowSteps, TakeAStepForEveryBitAndOneForEveryOneBehindTheFirst) {
  EXPECT_TRUE(window_steps(1).empty());
  EXPECT_EQ(window_steps(8).size(), 3u);
  EXPECT_EQ(window_steps(7).size(), 4u);
  for (unsigned ranks = 1; ranks <= 40; ++ranks) {
    const int limit = std::bit_width(ranks) - 1 + std::popcount(ranks) - 1;
    EXPECT_LE(static_cast<int>(window_steps(static_cast<int>(ranks)).size()), limit) << ranks;
  }
}

TEST(ExponentialDistance, DoublesFromRoundToRoundAndStartsAgain) {
  const auto distances = [](int size) {
    std::vector<int> result;
    for (std::uint64_t round = 0; round < 7; ++round) {
      result.push_back(exponential_distance(size, round));
    }
    return result;
  };
  EXPECT_EQ(distances(1), (std::vector<int>{0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(distances(2), (std::vector<int>{1, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(distances(3), (std::vector<int>{1, 2, 1, 2, 1, 2, 1}));
  EXPECT_EQ(distances(4), (std::vector<int>{1, 2, 1, 2, 1, 2, 1}));
  EXPECT_EQ(distances(5), (std::vector<int>{1, 2, 4, 1, 2, 4, 1}));
  EXPECT_EQ(distances(8), (std::vector<int>{1, 2, 4, 1, 2, 4, 1}));
  EXPECT_EQ(distances(9), (std::vector<int>{1, 2, 4, 8, 1, 2, 4}));
}

TEST(ExponentialDistance, NeverPointsAtOneself) {
  for (int size = 2; size <= 40; ++size) {
    for (std::uint64_t round = 0; round < 20; ++round) {
      const int distance = exponential_distance(size, round);
      EXPECT_GT(distance, 0);
      EXPECT_LT(distance, size);
    }
  }
}

TEST(RepeatMatrix, IsThePowerOfOnePass) {
  for (int size : {1, 2, 3, 5, 8}) {
    Vector x;
    Random random{5};
    for (int i = 0; i < size; ++i) x.push_back(random.uniform());
    Vector expected = x;
    for (int passes = 1; passes < 2 * size; ++passes) {
      expected = times(window_matrix(size, size == 1 ? 0 : 1), expected);
      const Vector found = times(repeat_matrix(size, passes), x);
      for (std::size_t i = 0; i < x.size(); ++i) {
        EXPECT_NEAR(found[i], expected[i], 1e-12) << "n=" << size << " passes=" << passes;
      }
    }
  }
}

TEST(DealtGroups, HoldEverybodyOnceInEveryRoundAndAllButTheLastAreFull) {
  for (int size = 1; size <= 40; ++size) {
    for (int members = 2; members <= size + 1; ++members) {
      for (std::uint64_t round = 0; round < 2 * dealing_rounds(size, members); ++round) {
        SCOPED_TRACE(testing::Message() << size << " by " << members << " in round " << round);
        const auto groups = dealt_groups(size, members, round);
        std::vector<int> all;
        for (std::size_t i = 0; i < groups.size(); ++i) {
          all.insert(all.end(), groups[i].begin(), groups[i].end());
          if (i + 1 < groups.size()) {
            EXPECT_EQ(groups[i].size(), static_cast<std::size_t>(members));
          }
        }
        std::ranges::sort(all);
        ASSERT_EQ(all.size(), static_cast<std::size_t>(size));
        for (int rank = 0; rank < size; ++rank)
          EXPECT_EQ(all[static_cast<std::size_t>(rank)], rank);
      }
    }
  }
}

TEST(DealtGroups, AreThoseOfADealtDeck) {
  using Groups = std::vector<std::vector<int>>;
  EXPECT_EQ(dealt_groups(6, 2, 0), (Groups{{0, 1}, {2, 3}, {4, 5}}));
  EXPECT_EQ(dealt_groups(6, 2, 1), (Groups{{0, 2}, {4, 1}, {3, 5}}));
  EXPECT_EQ(dealt_groups(6, 2, 2), (Groups{{0, 4}, {3, 2}, {1, 5}}));
  EXPECT_EQ(dealt_groups(6, 2, 3), dealt_groups(6, 2, 0));
  EXPECT_EQ(dealt_groups(5, 3, 0), (Groups{{0, 1, 2}, {3, 4}}));
  EXPECT_EQ(dealt_groups(5, 3, 1), (Groups{{0, 3, 1}, {4, 2}}));
}

}  // namespace
}  // namespace starling
