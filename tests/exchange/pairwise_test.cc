// Pairwise averaging against the mixing matrix.
#include "exchange/pairwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/random.h"
#include "tests/exchange/vectors.h"
#include "tests/exchange/world.h"
#include "topology/mixing.h"

namespace starling {
namespace {

template <class Average>
void run(World& world, Vectors& vectors, const Average& average) {
  world.run([&](Comm& comm) {
    return average(comm, std::span<float>(vectors[static_cast<std::size_t>(comm.rank())]));
  });
}

double mean(const Vectors& vectors, std::size_t element) {
  double sum = 0;
  for (const auto& vector : vectors) sum += static_cast<double>(vector[element]);
  return sum / static_cast<double>(vectors.size());
}

double spread(const Vectors& vectors) {
  double sum = 0;
  for (std::size_t i = 0; i < vectors[0].size(); ++i) {
    for (const auto& vector : vectors) {
      sum += std::pow(static_cast<double>(vector[i]) - mean(vectors, i), 2);
    }
  }
  return std::sqrt(sum);
}

TEST(PairwiseAverage, EqualsTheMixingMatrixForEveryNumberOfPasses) {
  for (int size : {1, 2, 3, 4, 5, 6, 7, 8, 13}) {
    for (int passes = 1; passes <= std::max(1, size - 1); ++passes) {
      for (std::size_t elements : {0u, 1u, 7u, 100'003u}) {
        if ((elements > 1000 && size > 6) || !World::can_have(size)) continue;
        const Vectors before = random_vectors(size, elements, 7);
        Vectors after = before;
        World world(size);
        run(world, after, [&](Comm& comm, std::span<float> weights) {
          return pairwise_average(comm, kWeights, weights, passes);
        });
        const auto matrix = window_matrix(size, std::min(passes, size - 1));
        for (const std::size_t rank : world.known()) {
          for (std::size_t i = 0; i < elements; ++i) {
            double expected = 0;
            for (std::size_t k = 0; k < before.size(); ++k) {
              expected += matrix[rank][k] * static_cast<double>(before[k][i]);
            }
            ASSERT_NEAR(after[rank][i], expected, 1e-6)
                << "n=" << size << " passes=" << passes << " rank=" << rank << " i=" << i;
          }
        }
      }
    }
  }
}

TEST(PairwiseAverage, KeepsTheMeanAndShrinksTheSpreadByCosinePiOverN) {
  for (int size : {2, 3, 4, 6, 8, 16}) {
    if (!World::can_have(size)) continue;
    Vectors vectors = random_vectors(size, 512, 1);
    const double first_mean = mean(vectors, 0);
    World world(size);
    double before = spread(vectors);
    double ratio = 0;
    for (int round = 0; round < 5 * size; ++round) {
      run(world, vectors, [](Comm& comm, std::span<float> weights) {
        return pairwise_average(comm, kWeights, weights, 1);
      });
      world.tell_all(vectors);
      const double after = spread(vectors);
      ratio = after / before;
      EXPECT_LE(ratio, pairwise_contraction(size) + 1e-3) << "n=" << size << " round=" << round;
      if (after < 1e-3) break;
      before = after;
    }
    // Once the slowest mode is all that is left, the bound is met.
    if (size > 4) {
      EXPECT_NEAR(ratio, pairwise_contraction(size), 0.01) << size;
    }
    EXPECT_NEAR(mean(vectors, 0), first_mean, 1e-5) << size;
  }
}

TEST(PairwiseAverage, SendsOneVectorForOnePassAndTwiceTheRingShareForAll) {
  for (int size : {2, 3, 4, 6, 8}) {
    for (int passes = 1; passes < size && World::can_have(size); ++passes) {
      Vectors vectors = random_vectors(size, 24 * 35, 1);
      World world(size);
      run(world, vectors, [&](Comm& comm, std::span<float> weights) {
        return pairwise_average(comm, kWeights, weights, passes);
      });
      std::uint64_t sent = 0;
      for (const std::uint64_t each : world.bytes_sent()) sent += each;
      EXPECT_NEAR(static_cast<double>(sent),
                  pairwise_vectors_sent(size, passes) * size * 4 * 24 * 35, 1)
          << "n=" << size << " passes=" << passes;
    }
  }
  EXPECT_DOUBLE_EQ(pairwise_vectors_sent(4, 1), 1.0);
  EXPECT_DOUBLE_EQ(pairwise_vectors_sent(4, 3), 1.5);
  EXPECT_DOUBLE_EQ(pairwise_vectors_sent(16, 3), 2.0);
  EXPECT_DOUBLE_EQ(pairwise_vectors_sent(16, 6), 4.0);
}

TEST(ExponentialAverage, ReachesTheMeanInLog2RoundsForPowersOfTwo) {
  for (int size : {1, 2, 4, 8, 16}) {
    if (!World::can_have(size)) continue;
    Vectors vectors = random_vectors(size, 100, 2);
    const Vectors before = vectors;
    World world(size);
    for (std::uint64_t round = 0; (1 << round) < size; ++round) {
      run(world, vectors, [&](Comm& comm, std::span<float> weights) {
        return exponential_average(comm, kWeights, weights, round);
      });
    }
    world.tell_all(vectors);
    for (std::size_t i = 0; i < 100; ++i) {
      for (const auto& vector : vectors) EXPECT_NEAR(vector[i], mean(before, i), 1e-6) << size;
    }
  }
}

TEST(ExponentialAverage, KeepsTheMeanAndConvergesForAnyNumberOfRanks) {
  for (int size : {3, 5, 6, 13}) {
    if (!World::can_have(size)) continue;
    Vectors vectors = random_vectors(size, 10, 2);
    const double before_mean = mean(vectors, 3), before_spread = spread(vectors);
    World world(size);
    for (std::uint64_t round = 0; round < 12; ++round) {
      run(world, vectors, [&](Comm& comm, std::span<float> weights) {
        return exponential_average(comm, kWeights, weights, round);
      });
    }
    world.tell_all(vectors);
    EXPECT_NEAR(mean(vectors, 3), before_mean, 1e-6) << size;
    EXPECT_LT(spread(vectors), before_spread * 0.02) << size;
  }
}

}  // namespace
}  // namespace starling
