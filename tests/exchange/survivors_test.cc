#include "exchange/survivors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "runtime/group.h"
#include "sim/cluster.h"
#include "tests/exchange/world.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

Task<> nothing() { co_return; }

// Values and shares of all ranks of a world: a World, or a Cluster where some of them are lost.
template <class AnyWorld = World>
struct Flock {
  Flock(int size, std::size_t elements, const Network& network = {})
      : world(size, network), shares(static_cast<std::size_t>(size), 1.0f) {
    Random random{static_cast<std::uint64_t>(size), elements};
    values.resize(shares.size());
    for (auto& each : values) {
      for (std::size_t i = 0; i < elements; ++i) {
        each.push_back(static_cast<float>(random.uniform(-1, 1)));
      }
    }
    before = values;
  }

  // Of the first `workers` ranks; the others have nothing to do with it.
  auto mean_of_workers(int workers) {
    return [this, workers](Comm& comm) -> Task<> {
      const auto rank = static_cast<std::size_t>(comm.rank());
      return comm.rank() < workers
                 ? mean_of_survivors(Group(comm).first(workers, 1), values[rank], shares[rank])
                 : nothing();
    };
  }
  void run(int workers) {
    world.run(mean_of_workers(workers));
    world.tell_all(values);
  }

  // The mean of those ranks, each by its share.
  std::vector<double> mean_of(const std::vector<std::size_t>& ranks) const {
    std::vector<double> mean(before[0].size());
    double sum = 0;
    for (std::size_t rank : ranks) {
      sum += static_cast<double>(shares[rank]);
      for (std::size_t i = 0; i < mean.size(); ++i) {
        mean[i] += static_cast<double>(shares[rank]) * static_cast<double>(before[rank][i]);
      }
    }
    for (double& value : mean) value /= sum;
    return mean;
  }

  AnyWorld world;
  std::vector<float> shares;
  std::vector<std::vector<float>> values, before;
};

// Whose ranks can be lost.
struct MortalFlock : Flock<Cluster> {
  MortalFlock(int size, std::size_t elements, const Network& network)
      : Flock(size, elements, network) {
    for (int rank = 0; rank < size; ++rank) Group(world.comm(rank)).contain_losses();
  }
  std::vector<std::exception_ptr> run(int workers) {
    return world.try_run(mean_of_workers(workers));
  }
};

double difference(const std::vector<float>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double apart = std::abs(static_cast<double>(a[i]) - b[i]);
    if (!(apart <= largest)) largest = apart;
  }
  return largest;
}

std::vector<std::size_t> first(std::size_t count) {
  std::vector<std::size_t> ranks;
  for (std::size_t rank = 0; rank < count; ++rank) ranks.push_back(rank);
  return ranks;
}

TEST(MeanOfSurvivors, IsTheMeanOfAllByTheirShares) {
  for (int size : {1, 2, 3, 5, 8, 13}) {
    if (!World::can_have(size)) continue;
    for (std::size_t elements : {1, 101, 100'000}) {
      for (float step : {0.0f, 0.25f}) {
        Flock<> flock(size, elements);
        for (std::size_t rank = 0; rank < flock.shares.size(); ++rank) {
          flock.shares[rank] += step * static_cast<float>(rank);
        }
        flock.run(size);
        const auto mean = flock.mean_of(first(flock.values.size()));
        EXPECT_LT(difference(flock.values[0], mean), 1e-6) << size << " " << elements;
        for (const auto& each : flock.values) EXPECT_EQ(each, flock.values[0]);
      }
    }
  }
}

TEST(MeanOfSurvivors, LeavesRanksBehindTheWorkersAlone) {
  if (!World::can_have(5)) return;
  Flock<> flock(5, 17);
  flock.run(3);
  EXPECT_LT(difference(flock.values[0], flock.mean_of({0, 1, 2})), 1e-6);
  EXPECT_EQ(flock.values[3], flock.before[3]);
}

TEST(MeanOfSurvivors, AShareOfNothingCountsForNothing) {
  if (!World::can_have(4)) return;
  Flock<> flock(4, 17);
  flock.shares = {0, 1, 0, 0};
  flock.run(4);
  for (const auto& each : flock.values) EXPECT_EQ(each, flock.before[1]);
}

TEST(MeanOfSurvivors, AllCountWhenNobodyDoes) {
  for (int size : {1, 2, 5}) {
    if (!World::can_have(size)) continue;
    Flock<> flock(size, 17);
    flock.shares.assign(flock.shares.size(), 0);
    flock.run(size);
    flock.shares.assign(flock.shares.size(), 1);
    EXPECT_LT(difference(flock.values[0], flock.mean_of(first(flock.values.size()))), 1e-6);
    for (const auto& each : flock.values) EXPECT_EQ(each, flock.values[0]);
  }
}

TEST(SimulatedMeanOfSurvivors, AllCountWhenThoseAreLostWhoDid) {
  MortalFlock flock(4, 17, {{1e9, 10us}, {}});
  flock.shares = {1, 1, 0, 0};
  for (const int lost : {0, 1}) flock.world.crash(lost, 1ms);
  flock.world.run([](Comm& comm) { return sleep_until(comm.loop(), 2ms); });
  for (const auto& error : flock.run(4)) EXPECT_FALSE(error);
  flock.shares = {0, 0, 1, 1};
  EXPECT_LT(difference(flock.values[2], flock.mean_of({2, 3})), 1e-6);
  EXPECT_EQ(flock.values[3], flock.values[2]);
}

TEST(SimulatedMeanOfSurvivors, DoesWithoutThoseWhoWereLostBefore) {
  for (int lost : {0, 1, 4}) {
    MortalFlock flock(5, 101, {{1e9, 10us}, {}});
    flock.world.crash(lost, 1ms);
    flock.world.run([](Comm& comm) { return sleep_until(comm.loop(), 2ms); });
    for (const auto& error : flock.run(5)) EXPECT_FALSE(error);
    std::vector<std::size_t> left;
    for (std::size_t rank = 0; rank < 5; ++rank) {
      if (static_cast<int>(rank) != lost) left.push_back(rank);
    }
    for (std::size_t rank : left) {
      EXPECT_LT(difference(flock.values[rank], flock.mean_of(left)), 1e-6);
    }
  }
}

Task<> come_late(Comm& comm, Time time, std::span<float> values) {
  co_await sleep_until(comm.loop(), time);
  co_await mean_of_survivors(comm, values, 1);
}

// Some wait for the lead's answer while others do not even know of the exchange.
TEST(SimulatedMeanOfSurvivors, ALossBeforeTheLastOnesComeLeavesTheOthersWithTheSameModel) {
  for (int late : {1, 2, 3}) {
    MortalFlock flock(4, 101, {{1e9, 10us}, {}});
    flock.world.crash(0, 1ms);
    const auto errors = flock.world.try_run([&](Comm& comm) {
      return come_late(comm, comm.rank() == late ? 2ms : 0ms,
                       flock.values[static_cast<std::size_t>(comm.rank())]);
    });
    for (const auto& error : errors) EXPECT_FALSE(error);
    for (std::size_t rank : {1, 2, 3}) {
      EXPECT_LT(difference(flock.values[rank], flock.mean_of({1, 2, 3})), 1e-6) << late;
    }
  }
}

// A crash at any time: in the middle of what is sent, received or handed out. Whoever is left has
// the same, with or without the lost one's, and nobody waits for ever.
TEST(SimulatedMeanOfSurvivors, ALossAtAnyTimeLeavesTheOthersWithTheSameModel) {
  for (int size : {2, 3, 4}) {
    for (int lost = 0; lost < size; ++lost) {
      // 4 KB take 0.4 ms to leave; all is over after some 20 of these.
      for (Time crash = 50us; crash < 8ms; crash += 130us) {
        SCOPED_TRACE(testing::Message() << "n=" << size << " rank " << lost << " at "
                                        << crash.count() / 1000 << " us");
        MortalFlock flock(size, 1000, {{1e7, 50us}, {}});
        flock.world.crash(lost, crash);
        std::vector<std::exception_ptr> errors;
        try {
          errors = flock.run(size);
        } catch (const Error& stuck) {
          ADD_FAILURE() << stuck.what();
          continue;
        }
        for (const auto& error : errors) EXPECT_FALSE(error);
        std::vector<std::size_t> left;
        for (int rank = 0; rank < size; ++rank) {
          if (rank != lost) left.push_back(static_cast<std::size_t>(rank));
        }
        const auto all = flock.mean_of(first(static_cast<std::size_t>(size)));
        for (std::size_t rank : left) {
          EXPECT_EQ(flock.values[rank], flock.values[left[0]]);
          EXPECT_TRUE(difference(flock.values[rank], flock.mean_of(left)) < 1e-6 ||
                      difference(flock.values[rank], all) < 1e-6);
        }
      }
    }
  }
}

// Where losses are not contained, the loss of anybody ends the exchange for all.
TEST(SimulatedMeanOfSurvivors, IsAnErrorWhereLossesAreNotBorne) {
  Cluster cluster(3, {{1e6, 1ms}, {}});
  cluster.crash(2, 1ms + 500us);
  std::vector<std::vector<float>> values(3, std::vector<float>(100, 1.0f));
  const auto errors = cluster.try_run([&](Comm& comm) {
    return mean_of_survivors(comm, values[static_cast<std::size_t>(comm.rank())], 1);
  });
  ASSERT_TRUE(errors[1]);
  EXPECT_THROW(std::rethrow_exception(errors[1]), PeerLost);
}

}  // namespace
}  // namespace starling
