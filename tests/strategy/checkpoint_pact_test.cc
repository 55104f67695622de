#include "strategy/checkpoint_pact.h"

#include <gtest/gtest.h>

#include <vector>

#include "sim/cluster.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

struct Kept {
  std::vector<std::uint64_t> rounds;  // that had a checkpoint
  std::uint64_t meetings = 0, last_round = 0;
};

// Workers whose rounds take that long, one more than the other; `stops` is told to at some time.
std::vector<Kept> keep(int ranks, CheckpointInterval interval, Time round_takes,
                       std::uint64_t rounds, int stops = -1, Time at = {}) {
  std::vector<Kept> all(static_cast<std::size_t>(ranks));
  Cluster cluster(ranks);
  cluster.run([&](Comm& comm) -> Task<> {
    Kept& mine = all[static_cast<std::size_t>(comm.rank())];
    Loop& loop = comm.loop();
    CheckpointPact pact(interval, loop.now());
    pact.begin(0);
    for (std::uint64_t round = 1; round <= rounds && !pact.all_stop(); ++round) {
      co_await sleep_until(loop, loop.now() + round_takes + comm.rank() * 1ms);
      mine.last_round = round;
      if (!pact.meets_after(round)) continue;
      ++mine.meetings;
      co_await pact.meet(comm, round, comm.rank() == stops && loop.now() >= at);
      if (!pact.is_due()) continue;
      mine.rounds.push_back(round);
      pact.keep(round, loop.now());
    }
  });
  return all;
}

TEST(CheckpointPact, BySteps) {
  for (const Kept& each : keep(3, {.steps = 4}, 10ms, 13)) {
    EXPECT_EQ(each.rounds, (std::vector<std::uint64_t>{4, 8, 12}));
  }
}

TEST(CheckpointPact, ByTimeIsAfterTheSameRoundForAll) {
  for (int ranks : {1, 2, 3, 5, 8, 13}) {
    const auto all = keep(ranks, {.time = 1s}, 50ms, 200);
    for (const Kept& each : all) {
      EXPECT_EQ(each.rounds, all[0].rounds);
      EXPECT_EQ(each.meetings, all[0].meetings);
    }
    EXPECT_GE(all[0].rounds.size(), 7u) << "in 10 s, once a second";
    EXPECT_LE(all[0].rounds.size(), 12u);
    EXPECT_LT(all[0].meetings, 80u) << "a few in an interval, not one after each of 200 rounds";
  }
}

TEST(CheckpointPact, AllStopSoonWithALastCheckpointIfOneIsToStop) {
  for (int stops : {0, 2}) {
    const auto all = keep(3, {.time = 1h}, 10ms, 100'000, stops, 30s);
    for (const Kept& each : all) {
      EXPECT_EQ(each.rounds, std::vector{each.last_round});
      EXPECT_EQ(each.last_round, all[0].last_round);
    }
    EXPECT_LT(all[0].last_round, 3400u) << "about 2 s later, rounds taking 10 to 12 ms";
  }
}

TEST(CheckpointPact, BeginsAnewFromAnyRoundAndKeepsItsTime) {
  CheckpointPact pact({.time = 1s}, 0s);
  pact.begin(70);
  EXPECT_FALSE(pact.meets_after(70));
  EXPECT_TRUE(pact.meets_after(71));
  EXPECT_TRUE(pact.has_kept(70));
  Cluster cluster(1);
  cluster.run([&](Comm& comm) -> Task<> {
    co_await sleep_until(comm.loop(), comm.loop().now() + 1s);
    co_await pact.meet(comm, 71, false);
  });
  EXPECT_TRUE(pact.is_due()) << "the second has passed, whenever it was begun anew";
}

}  // namespace
}  // namespace starling
