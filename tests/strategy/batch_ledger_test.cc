#include "strategy/batch_ledger.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/random.h"

namespace starling {
namespace {

TEST(BatchLedger, DealsOutAllInTheirOrder) {
  const BatchLedger ledger(5);
  EXPECT_EQ(ledger.left(), 5u);
  for (std::uint64_t i = 0; i < 5; ++i) EXPECT_EQ(ledger.at(i), i);
  EXPECT_EQ(ledger.at(5), std::nullopt);
}

TEST(BatchLedger, WhatALostWorkerHasNotDoneComesFirst) {
  BatchLedger ledger(12);
  const std::uint64_t done[] = {2, 1, 2};  // 0 3, 1, 2 5
  ledger.strike_out(done);
  EXPECT_EQ(ledger.left(), 7u);
  EXPECT_EQ(ledger.at(0), 4u);
  EXPECT_EQ(ledger.at(1), 6u);
  EXPECT_EQ(ledger.at(6), 11u);
}

TEST(BatchLedger, WhatIsDoneBeyondOnesOwnTurnsCountsForThoseWhoAreBehind) {
  BatchLedger ledger(12);
  const std::uint64_t done[] = {9, 2};  // all of 0 2 4 6 8 10 and three more, 1 3
  ledger.strike_out(done);
  EXPECT_EQ(ledger.left(), 1u);
  EXPECT_EQ(ledger.at(0), 11u);
}

// The last turns may come to no batch, and are done all the same.
TEST(BatchLedger, TurnsThatComeToNoBatchAreNoHelp) {
  BatchLedger ledger(10);
  const std::uint64_t done[] = {1, 4, 4};
  ledger.strike_out(done);
  EXPECT_EQ(ledger.left(), 3u);
  EXPECT_EQ(ledger.at(0), 3u);
}

TEST(BatchLedger, NoMoreThanIsLeftIsDoneForOthers) {
  BatchLedger ledger(10);
  const std::uint64_t done[] = {0, 90};
  ledger.strike_out(done);
  EXPECT_EQ(ledger.left(), 0u);
  EXPECT_EQ(BatchLedger::of(ledger.numbers()), ledger);
}

// Over many generations of any size: each batch is struck out once, and in the end none is left.
TEST(BatchLedger, EachBatchIsDoneOnce) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random{seed};
    const std::uint64_t batches = random.below(200);
    BatchLedger ledger(batches);
    std::multiset<std::uint64_t> done_all;
    for (int generation = 0; ledger.left() > 0; ++generation) {
      ASSERT_LT(generation, 5000);
      const std::uint64_t n = 1 + random.below(6);
      std::vector<std::uint64_t> done(n);
      for (std::uint64_t worker = 0; worker < n; ++worker) {
        done[worker] = random.below(std::min<std::uint64_t>(7, (ledger.left() + n - 1) / n) + 1);
        for (std::uint64_t round = 0; round < done[worker]; ++round) {
          if (const auto batch = ledger.at(round * n + worker)) done_all.insert(*batch);
        }
      }
      ledger.strike_out(done);
      EXPECT_EQ(BatchLedger::of(ledger.numbers()), ledger);
      EXPECT_EQ(ledger.left() + done_all.size(), batches) << "seed " << seed;
    }
    EXPECT_EQ(std::set(done_all.begin(), done_all.end()).size(), batches);
  }
}

TEST(BatchLedger, NonsenseIsRefused) {
  using Numbers = std::vector<std::uint64_t>;
  EXPECT_THROW(BatchLedger::of(Numbers{}), Error);
  EXPECT_THROW(BatchLedger::of(Numbers{3, 4}), Error);
  EXPECT_THROW(BatchLedger::of(Numbers{9, 4, 2, 1}), Error);
  EXPECT_THROW(BatchLedger::of(Numbers{9, 4, 5}), Error);
  EXPECT_THROW(BatchLedger::of(Numbers{9, 1, 0, 0}), Error);
}

TEST(DoneBatches, AreReadAsTheyWereAdded) {
  Random random{5};
  DoneBatches done;
  std::vector<std::uint64_t> all;
  const auto add = [&](std::uint64_t batch) {
    done.add(batch);
    all.push_back(batch);
  };
  for (std::uint64_t i = 0; i < 50; ++i) add(3 + 4 * i);
  for (int i = 0; i < 50; ++i) add(random.below(1000));
  add(7);
  add(7);
  Snapshot snapshot;
  done.visit_state(State::saving(snapshot));
  DoneBatches read;
  read.visit_state(State::restoring(snapshot));
  EXPECT_EQ(read.numbers(1000), all);
  EXPECT_THROW(read.numbers(500), Error) << "there are no such batches";
}

TEST(DoneBatches, TurnsTakeNoRoom) {
  DoneBatches done;
  for (std::uint64_t i = 0; i < 1'000'000; ++i) done.add(2 + 4 * i);
  Snapshot snapshot;
  done.visit_state(State::saving(snapshot));
  EXPECT_LE(encoded_bytes(snapshot), 100u);
}

TEST(DoneBatches, NonsenseIsRefused) {
  for (const std::vector<std::uint64_t>& run : std::vector<std::vector<std::uint64_t>>{
           {0, 1, ~0ull}, {0, 0, 2}, {0, ~0ull, 2}, {10, 1, 1}, {0, 1, 0}, {1, 3, 4}}) {
    Snapshot snapshot;
    std::vector<std::uint64_t> numbers = run;
    State::saving(snapshot)("runs", numbers);
    DoneBatches done;
    done.visit_state(State::restoring(snapshot));
    EXPECT_THROW(done.numbers(10), Error) << run[2];
  }
}

TEST(BatchLedger, WhatEachHasWrittenDownIsStruckOut) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Random random{seed};
    const std::uint64_t batches = 1 + random.below(300);
    BatchLedger ledger(batches);
    std::multiset<std::uint64_t> done_all;
    for (int life = 0; ledger.left() > 0; ++life) {  // of a run that is resumed again and again
      ASSERT_LT(life, 5000);
      const std::uint64_t n = 1 + random.below(6);
      std::vector<DoneBatches> done(n);
      for (std::uint64_t worker = 0; worker < n; ++worker) {
        const std::uint64_t rounds = random.below(8);
        for (std::uint64_t round = 0; round < rounds; ++round) {
          const auto batch = ledger.at(round * n + worker);
          if (!batch) continue;
          done[worker].add(*batch);
          done_all.insert(*batch);
        }
      }
      ledger.strike_out(done);
      EXPECT_EQ(BatchLedger::of(ledger.numbers()), ledger);
      EXPECT_EQ(ledger.left() + done_all.size(), batches) << "seed " << seed;
    }
    EXPECT_EQ(std::set(done_all.begin(), done_all.end()).size(), batches);
  }
}

TEST(BatchLedger, MayEndLaterOrSooner) {
  BatchLedger ledger(10);
  ledger.strike_out(std::vector<std::uint64_t>{2, 4});  // 0, 2 and 1, 3, 5, 7
  ledger.set_end(12);
  EXPECT_EQ(ledger.left(), 6u);
  EXPECT_EQ(ledger.at(5), 11u);
  ledger.set_end(5);
  EXPECT_EQ(ledger.left(), 1u);
  EXPECT_EQ(ledger.at(0), 4u);
}

}  // namespace
}  // namespace starling
