#include "server/clerk.h"

#include <gtest/gtest.h>

#include <list>
#include <optional>

#include "sim/sim_loop.h"

namespace starling {
namespace {

using Mode = Clerk::Mode;

class Office {
 public:
  Office(const Clerk::Options& options, int workers, const WorkPlan& plan)
      : clerk(loop, options, workers) {
    clerk.plan(plan);
  }

  // A worker asks; what it gets, or nothing if it has to wait.
  std::optional<std::uint64_t> ask(int worker) {
    answers_.push_back(std::nullopt);
    asking_.emplace_back(note(worker, answers_.back()));
    loop.poll();
    return answers_.back();
  }
  // What the question of that number has got by now.
  std::optional<std::uint64_t> answer(std::size_t asked) {
    loop.poll();
    return *std::next(answers_.begin(), static_cast<std::ptrdiff_t>(asked));
  }

  SimLoop loop;
  Clerk clerk;

 private:
  Task<> note(int worker, std::optional<std::uint64_t>& unit) {
    Task<std::uint64_t> next = clerk.next(worker);
    unit = co_await next;
  }

  std::list<std::optional<std::uint64_t>> answers_;
  std::list<Running> asking_;
};

TEST(Clerk, GivesEveryWorkerItsOwnShareUntilAllIsHandedOut) {
  Office office({Mode::own_share, 1}, 3, {8, 8});
  EXPECT_EQ(office.ask(1), 1u);
  EXPECT_EQ(office.ask(1), 4u);
  EXPECT_EQ(office.ask(0), 0u);
  EXPECT_EQ(office.ask(2), 2u);
  EXPECT_EQ(office.ask(1), 7u);
  EXPECT_EQ(office.ask(1), Clerk::kNoMore);
  EXPECT_EQ(office.ask(2), 5u);
  EXPECT_EQ(office.ask(2), Clerk::kNoMore) << "there is no unit 8";
}

TEST(Clerk, GivesTheNextUnitToWhoeverIsFree) {
  Office office({Mode::whoever_is_free, 1}, 3, {4, 4});
  EXPECT_EQ(office.ask(2), 0u);
  EXPECT_EQ(office.ask(2), 1u);
  EXPECT_EQ(office.ask(0), 2u);
  EXPECT_EQ(office.ask(2), 3u);
  EXPECT_EQ(office.ask(1), Clerk::kNoMore);
}

// Two thirds of six units are four: two steps of both. Then the next epoch begins.
TEST(Clerk, EndsAnEpochAfterTheSameStepForAllWhoGoInStep) {
  Office office({Mode::own_share, 0.6}, 2, {12, 6});
  for (std::uint64_t unit : {0, 2, 6, 8}) {
    EXPECT_EQ(office.ask(0), unit);
    EXPECT_EQ(office.ask(1), unit + 1);
  }
  EXPECT_EQ(office.ask(0), Clerk::kNoMore);
  EXPECT_EQ(office.ask(1), Clerk::kNoMore);
}

TEST(Clerk, HandsOutAShareOfEachEpochToWhoeverIsFree) {
  Office office({Mode::whoever_is_free, 0.6}, 3, {12, 6});
  const std::vector<std::uint64_t> units = {0, 1, 2, 3, 6, 7, 8, 9};
  for (std::size_t i = 0; i < units.size(); ++i) {
    EXPECT_EQ(office.ask(static_cast<int>(i * i % 3)), units[i]);
  }
  EXPECT_EQ(office.ask(2), Clerk::kNoMore);
}

TEST(Clerk, GivesNobodyAnythingAfterAStop) {
  for (const Mode mode : {Mode::own_share, Mode::whoever_is_free, Mode::until_share}) {
    Office office({mode, 1}, 2, {100, 100});
    EXPECT_EQ(office.ask(0), 0u);
    office.clerk.stop();
    EXPECT_EQ(office.ask(0), Clerk::kNoMore);
    EXPECT_EQ(office.ask(1), Clerk::kNoMore);
  }
}

// Four units an epoch: 0 and 2 are worker 0's, 1 and 3 worker 1's.
TEST(Clerk, LetsWhoHasDoneItsShareWaitForTheEndOfTheEpoch) {
  Office office({Mode::until_share, 1}, 2, {12, 4});
  EXPECT_EQ(office.ask(0), 0u);
  EXPECT_EQ(office.ask(1), 1u);
  EXPECT_EQ(office.ask(0), 2u);
  EXPECT_EQ(office.ask(0), std::nullopt);
  EXPECT_EQ(office.ask(1), 3u);
  EXPECT_EQ(office.answer(3), std::nullopt) << "three of four are done";
  EXPECT_EQ(office.ask(1), 5u);
  EXPECT_EQ(office.answer(3), 4u);
}

TEST(Clerk, EndsAnEpochForAllOnceTheShareIsDone) {
  Office office({Mode::until_share, 0.5}, 2, {12, 4});
  EXPECT_EQ(office.ask(1), 1u);  // takes its time
  EXPECT_EQ(office.ask(0), 0u);
  EXPECT_EQ(office.ask(0), 2u);
  EXPECT_EQ(office.ask(0), 4u) << "two of four are done";
  EXPECT_EQ(office.ask(1), 5u) << "unit 3 is left out";
  EXPECT_EQ(office.ask(0), 6u);
  EXPECT_EQ(office.ask(0), 8u);
}

TEST(Clerk, RoundsAShareOfUnitsUp) {
  Office office({Mode::until_share, 0.6}, 2, {12, 4});
  EXPECT_EQ(office.ask(1), 1u);
  EXPECT_EQ(office.ask(0), 0u);
  EXPECT_EQ(office.ask(0), 2u);
  EXPECT_EQ(office.ask(0), std::nullopt) << "two of four are less than 0.6";
  EXPECT_EQ(office.ask(1), 5u);
  EXPECT_EQ(office.answer(3), 4u);
}

// What was begun in an epoch that has ended without it does not count for the next.
TEST(Clerk, DoesNotCountAStragglersUnitForTheNextEpoch) {
  Office office({Mode::until_share, 0.5}, 2, {40, 4});
  EXPECT_EQ(office.ask(1), 1u);
  EXPECT_EQ(office.ask(0), 0u);
  EXPECT_EQ(office.ask(0), 2u);
  EXPECT_EQ(office.ask(0), 4u);
  EXPECT_EQ(office.ask(1), 5u);
  EXPECT_EQ(office.ask(0), 6u) << "one of four is done, not two";
}

TEST(Clerk, EndsTheEpochWhenTheLastOneThatWasWaitedForIsLost) {
  Office office({Mode::until_share, 1}, 3, {18, 6});
  for (int worker : {0, 1, 2}) office.ask(worker);
  for (int worker : {0, 1}) office.ask(worker);
  EXPECT_EQ(office.ask(0), std::nullopt);
  EXPECT_EQ(office.ask(1), std::nullopt);
  office.clerk.leave(2);
  EXPECT_EQ(office.answer(5), 6u);
  EXPECT_EQ(office.answer(6), 7u);
}

TEST(Clerk, DoesNotEndTheEpochWhenOneIsLostAndAnotherStillWorks) {
  Office office({Mode::until_share, 1}, 3, {18, 6});
  for (int worker : {0, 1, 2}) office.ask(worker);
  office.ask(0);
  EXPECT_EQ(office.ask(0), std::nullopt);
  office.clerk.leave(2);
  EXPECT_EQ(office.answer(4), std::nullopt) << "worker 1 has a unit to do";
  EXPECT_EQ(office.ask(1), 4u);
  EXPECT_EQ(office.ask(1), 7u);
  EXPECT_EQ(office.answer(4), 6u);
}

TEST(Clerk, WakesThoseWhoWaitForAnEpochWhenAllIsStopped) {
  Office office({Mode::until_share, 1}, 2, {8, 2});
  office.ask(0);
  office.ask(1);
  EXPECT_EQ(office.ask(0), std::nullopt);
  office.clerk.stop();
  EXPECT_EQ(office.answer(2), Clerk::kNoMore);
}

}  // namespace
}  // namespace starling
