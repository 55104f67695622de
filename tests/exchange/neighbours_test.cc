// A round with neighbours against plain sums.
#include "exchange/neighbours.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "exchange/move.h"
#include "exchange/segments.h"
#include "runtime/race.h"
#include "tests/exchange/vectors.h"
#include "tests/exchange/world.h"

namespace starling {
namespace {

constexpr std::size_t kSegmentElements = kSegmentBytes / sizeof(float);

// Each rank hears the `reach` ranks before it, with weights that differ, and tells those after it.
struct Round {
  int reach;
  float own_weight;

  std::vector<Heard> heard(const Comm& comm) const {
    std::vector<Heard> ranks;
    for (int k = 1; k <= reach; ++k) {
      ranks.push_back({comm.ring(comm.rank() - k), 0.125f * static_cast<float>(k)});
    }
    return ranks;
  }
  std::vector<int> told(const Comm& comm) const {
    std::vector<int> ranks;
    for (int k = 1; k <= reach; ++k) ranks.push_back(comm.ring(comm.rank() + k));
    return ranks;
  }
};

Task<> go(Comm& comm, Round round, std::span<float> values) {
  const std::vector<int> told = round.told(comm);
  const std::vector<Heard> heard = round.heard(comm);
  co_await weighted_sum(comm, kWeights, values, round.own_weight, told, heard);
}

// Up to more segments than the window has, the last one short.
constexpr std::size_t kRoundLengths[] = {0, 1, 7, kSegmentElements,
                                         (kWindow + 2) * kSegmentElements + 3};

TEST(WeightedSum, AddsWhatOthersHadBeforeTheRound) {
  for (int size : {1, 2, 3, 4, 5}) {
    for (int reach = 0; reach < size && World::can_have(size); ++reach) {
      for (std::size_t elements : kRoundLengths) {
        const Round round{reach, 0.75f};
        const Vectors before = random_vectors(size, elements, 7);
        Vectors result = before;
        World world(size);
        world.run([&](Comm& comm) {
          return go(comm, round, result[static_cast<std::size_t>(comm.rank())]);
        });
        for (const std::size_t at : world.known()) {
          double largest = 0;
          for (std::size_t i = 0; i < elements; ++i) {
            double sum = 0.75 * static_cast<double>(before[at][i]);
            for (const Heard& each : round.heard(world.comm(at))) {
              sum += static_cast<double>(each.weight) *
                     static_cast<double>(before[static_cast<std::size_t>(each.rank)][i]);
            }
            largest = std::max(largest, std::abs(sum - static_cast<double>(result[at][i])));
          }
          EXPECT_LT(largest, 3e-7) << "n=" << size << " reach=" << reach << " " << elements;
        }
      }
    }
  }
}

Task<> to_the_first(Comm& comm, std::span<float> values) {
  if (comm.rank() > 0) {
    co_await move(comm, kWeights, Outgoing{0, values});
    co_return;
  }
  std::vector<Heard> heard;
  for (int rank = 1; rank < comm.size(); ++rank) heard.push_back({rank, 1});
  co_await weighted_sum(comm, kWeights, values, 1, {}, heard);
}

// (1e8 + 1) - 1e8 is 0 in floats and (1e8 - 1e8) + 1 is 1: who comes first must not matter.
TEST(WeightedSum, AddsInTheOrderOfThoseHeardWhateverComesFirst) {
  for (int late : {1, 2, 3}) {
    if (!World::can_have(4)) continue;
    World world(4, {{1e9, std::chrono::microseconds(100)}, {}});
    Vectors vectors = {{0}, {1e8f}, {1}, {-1e8f}};
    world.run([&](Comm& comm) -> Task<> {
      return [](Comm& c, int slow, std::span<float> values) -> Task<> {
        const auto delay = std::chrono::milliseconds(c.rank() == slow ? 50 : 0);
        co_await sleep_until(c.loop(), c.loop().now() + delay);
        co_await to_the_first(c, values);
      }(comm, late, vectors[static_cast<std::size_t>(comm.rank())]);
    });
    world.tell_all(vectors);
    EXPECT_EQ(vectors[0][0], 0) << late;
  }
}

}  // namespace
}  // namespace starling
