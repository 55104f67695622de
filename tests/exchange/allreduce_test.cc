// Every all-reduce against the plain sum: results, agreement, bytes and time.
#include "exchange/allreduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "base/range.h"
#include "sim/cluster.h"
#include "tests/exchange/vectors.h"
#include "tests/exchange/world.h"

namespace starling {
namespace {

constexpr int kWorldSizes[] = {1, 2, 3, 4, 5, 6, 7, 8};

// In the simulator.
Vectors reduce(Allreduce* run, Vectors vectors) {
  Cluster cluster(static_cast<int>(vectors.size()));
  cluster.run([&](Comm& comm) {
    return run(comm, {1, Purpose::gradients}, vectors[static_cast<std::size_t>(comm.rank())],
               Reduction::sum);
  });
  return vectors;
}

class AllreduceTest : public testing::TestWithParam<NamedAllreduce> {};
class SimulatedAllreduce : public testing::TestWithParam<NamedAllreduce> {};

TEST_P(AllreduceTest, GivesTheSumOnEveryRankWithTheSameBits) {
  for (int size : {1, 2, 3, 4, 5, 6, 7, 8, 13, 16}) {
    for (std::size_t elements : {0u, 1u, 2u, 7u, 64u, 1001u, 300'001u}) {
      if ((elements > 100'000 && size > 8) || !World::can_have(size)) continue;
      for (std::uint64_t seed : {1u, 2u}) {
        const Vectors before = random_vectors(size, elements, seed);
        const Vectors simulated = reduce(GetParam().run, before);
        for (std::size_t i = 0; i < elements; ++i) {
          double sum = 0;
          for (const auto& vector : before) sum += static_cast<double>(vector[i]);
          ASSERT_NEAR(simulated[0][i], sum, 1e-5)
              << "n=" << size << " length=" << elements << " i=" << i;
        }
        Vectors after = before;
        World world(size);
        world.run([&](Comm& comm) {
          return GetParam().run(comm, {1, Purpose::gradients},
                                after[static_cast<std::size_t>(comm.rank())], Reduction::sum);
        });
        for (const std::size_t rank : world.known()) {
          ASSERT_EQ(after[rank], simulated[0]) << "n=" << size << " length=" << elements;
        }
      }
    }
  }
}

TEST_P(AllreduceTest, GivesTheSameBitsInEveryRun) {
  for (int size : kWorldSizes) {
    if (!World::can_have(size)) continue;
    Vectors first = random_vectors(size, 1000, 3), second = first;
    World world(size);
    for (Vectors* vectors : {&first, &second}) {
      world.run([&](Comm& comm) {
        return GetParam().run(comm, {1, Purpose::gradients},
                              (*vectors)[static_cast<std::size_t>(comm.rank())], Reduction::sum);
      });
    }
    EXPECT_EQ(first, second) << size;
  }
}

Task<> both(Comm& comm, Allreduce* run, std::span<float> a, std::span<float> b) {
  Running other(run(comm, {2, Purpose::weights}, b, Reduction::sum));
  co_await run(comm, {1, Purpose::gradients}, a, Reduction::sum);
  co_await other;
}

// Messages of one exchange must not be taken for those of the next, or of another one at the same
// time.
TEST_P(AllreduceTest, RunsTwiceInARowAndSideBySide) {
  for (int size : kWorldSizes) {
    if (!World::can_have(size)) continue;
    Vectors first = random_vectors(size, 1000, 4), second = random_vectors(size, 77, 5);
    const Vectors first_once = reduce(GetParam().run, first);
    const Vectors second_once = reduce(GetParam().run, second);
    World world(size, {{1e6, std::chrono::microseconds(50)}, {}});
    world.run([&](Comm& comm) {
      const auto rank = static_cast<std::size_t>(comm.rank());
      return both(comm, GetParam().run, first[rank], second[rank]);
    });
    for (const std::size_t rank : world.known()) {
      EXPECT_EQ(first[rank], first_once[rank]) << size;
      EXPECT_EQ(second[rank], second_once[rank]) << size;
    }
  }
}

// The formulas of the design, section 5.1, in elements.
std::uint64_t expected_elements_sent(std::string_view name, int size, int rank,
                                     std::size_t elements) {
  const auto n = static_cast<std::size_t>(size);
  const auto part_size = [&](int index) {
    return part(elements, n, static_cast<std::size_t>((index + size) % size)).size();
  };
  const auto log2 = static_cast<std::size_t>(std::bit_width(n) - 1);
  if (name == "naive") return rank == 0 ? (n - 1) * elements : elements;
  if (name == "tree") {  // to the parent, and to each child
    std::size_t children = 0;
    for (int d = 1; (rank == 0 || d < (rank & -rank)) && rank + d < size; d *= 2) ++children;
    return (children + (rank == 0 ? 0 : 1)) * elements;
  }
  if (name == "scatter-reduce") {
    const std::size_t others = elements - part_size(rank);
    const std::size_t to_all = (n - 1) * part_size(rank);
    return others + to_all + (rank == 0 ? others : part_size(rank));
  }
  if (name == "ring") {  // all chunks but one in each half
    return 2 * elements - part_size(rank + 1) - part_size(rank + 2);
  }
  if (name == "doubling") return log2 * elements;
  if (name == "all-to-all") return (n - 1) * elements;
  // halving-doubling at a power of two: 2 (n-1)/n
  return 2 * (n - 1) * elements / n;
}

TEST_P(AllreduceTest, SendsExactlyTheBytesOfItsFormula) {
  for (int size : kWorldSizes) {
    const std::string_view name = GetParam().name;
    const bool power_of_two = std::has_single_bit(static_cast<unsigned>(size));
    if (!power_of_two && (name == "doubling" || name == "halving-doubling")) continue;
    if (!World::can_have(size)) continue;
    const std::size_t elements = name == "halving-doubling" ? 4096 : 4097;
    Vectors vectors = random_vectors(size, elements, 1);
    World world(size);
    const auto gradients = [&](std::size_t rank) {
      return world.comm(rank).ledger().total(Direction::sent, Purpose::gradients).payload;
    };
    const std::uint64_t before = gradients(world.known()[0]);  // in a world that is not new
    world.run([&](Comm& comm) {
      return GetParam().run(comm, {1, Purpose::gradients},
                            vectors[static_cast<std::size_t>(comm.rank())], Reduction::sum);
    });
    for (const std::size_t rank : world.known()) {
      EXPECT_EQ(gradients(rank) - before,
                4 * expected_elements_sent(name, size, static_cast<int>(rank), elements))
          << name << " n=" << size << " rank=" << rank;
      EXPECT_EQ(gradients(rank) - before, world.bytes_sent(rank));
    }
  }
}

// The delay bounds of section 5.1 with R = U = 0. There, a server stands beside n workers; here
// rank 0 is one of the n, so that naive takes 2 (n-1) T, tree 2 ceil(log2 n) T and scatter-reduce 4
// (n-1)/n T.
double bound_in_transfers(std::string_view name, int size) {
  const double n = size;
  const double rounds = std::ceil(std::log2(n));
  if (name == "naive") return 2 * (n - 1);
  if (name == "tree") return 2 * rounds;
  if (name == "all-to-all") return n - 1;
  if (name == "scatter-reduce") return 4 * (n - 1) / n;
  if (name == "ring" || name == "halving-doubling") return 2 * (n - 1) / n;
  return std::log2(n);
}

TEST_P(SimulatedAllreduce, TakesTheTimeOfItsDelayBound) {
  const std::string_view name = GetParam().name;
  constexpr double kBytesPerSecond = 12.5e6;
  constexpr std::size_t kElements = 1 << 20;
  for (int size : {2, 4, 8}) {
    Vectors vectors = random_vectors(size, kElements, 1);
    Cluster cluster(size, {{kBytesPerSecond, std::chrono::microseconds(100)}, {}});
    cluster.run([&](Comm& comm) {
      return GetParam().run(comm, {1, Purpose::gradients},
                            vectors[static_cast<std::size_t>(comm.rank())], Reduction::sum);
    });
    const double transfer = kElements * 4.0 / kBytesPerSecond;
    const double took = std::chrono::duration<double>(cluster.loop().now()).count();
    const double bound = bound_in_transfers(name, size) * transfer;
    EXPECT_GE(took, bound) << name << " n=" << size;
    // The rest is latency, headers, and the pipeline's first segments.
    EXPECT_LE(took, bound * 1.05 + 0.002) << name << " n=" << size;
  }
}

TEST_P(SimulatedAllreduce, FailsOnEveryRankWhenOneIsLost) {
  for (int dead = 0; dead < 4; ++dead) {
    Vectors vectors = random_vectors(4, 1 << 20, 1);
    Cluster cluster(4, {{12.5e6, std::chrono::microseconds(100)}, {}});
    cluster.crash(dead, std::chrono::milliseconds(20));
    const auto errors = cluster.try_run([&](Comm& comm) {
      return GetParam().run(comm, {1, Purpose::gradients},
                            vectors[static_cast<std::size_t>(comm.rank())], Reduction::sum);
    });
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == dead) continue;
      ASSERT_TRUE(errors[static_cast<std::size_t>(rank)]) << rank;
      try {
        std::rethrow_exception(errors[static_cast<std::size_t>(rank)]);
      } catch (const PeerLost& lost) {
        EXPECT_EQ(lost.rank(), dead);
        EXPECT_NE(std::string(lost.what()).find("all-reduce"), std::string::npos) << lost.what();
      }
    }
  }
}

std::string name_of(const testing::TestParamInfo<NamedAllreduce>& test) {
  std::string name(test.param.name);
  std::ranges::replace(name, '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, AllreduceTest, testing::ValuesIn(kAllreduces), name_of);
INSTANTIATE_TEST_SUITE_P(All, SimulatedAllreduce, testing::ValuesIn(kAllreduces), name_of);

// Whose sums are formed in one place are formed as a loop over the ranks would.
TEST(Allreduce, NaiveScatterReduceAndAllToAllAddInTheOrderOfRanks) {
  for (int size : kWorldSizes) {
    if (!World::can_have(size)) continue;
    const Vectors before = random_vectors(size, 1001, 6);
    std::vector<float> sum = before[0];
    for (std::size_t rank = 1; rank < before.size(); ++rank) {
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += before[rank][i];
    }
    for (Allreduce* run : {naive_allreduce, scatter_reduce_allreduce, all_to_all_allreduce}) {
      Vectors after = before;
      World world(size);
      world.run([&](Comm& comm) {
        return run(comm, {1, Purpose::gradients}, after[static_cast<std::size_t>(comm.rank())],
                   Reduction::sum);
      });
      for (const std::size_t rank : world.known()) EXPECT_EQ(after[rank], sum) << size;
    }
  }
}

TEST(FindAllreduce, NamesThoseThereAre) {
  EXPECT_EQ(find_allreduce("ring"), ring_allreduce);
  for (const char* beginning : {"", "n", "rin"}) EXPECT_THROW(find_allreduce(beginning), Error);
  try {
    find_allreduce("rnig");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "there is no exchange 'rnig'; there are auto, naive, tree, scatter-reduce, ring, doubling, "
        "halving-doubling, all-to-all");
  }
}

}  // namespace
}  // namespace starling
