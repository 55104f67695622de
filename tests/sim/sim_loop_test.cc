#include "sim/sim_loop.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

Task<> sleep_and_note(SimLoop& loop, Time until, int number, std::vector<int>& notes) {
  co_await sleep_until(loop, until);
  notes.push_back(number);
}

TEST(SimLoop, HasEventsHappenInTheOrderOfTheirTimes) {
  SimLoop loop;
  std::vector<std::pair<Time, int>> happened;
  const auto plan = [&](Time time, int number) {
    loop.at(time, [&, number] { happened.emplace_back(loop.now(), number); });
  };
  plan(3s, 1);
  plan(1s, 2);
  plan(2s, 3);
  loop.run(sleep_until(loop, 10s));
  EXPECT_EQ(happened, (std::vector<std::pair<Time, int>>{{1s, 2}, {2s, 3}, {3s, 1}}));
}

TEST(SimLoop, HasEventsOfTheSameTimeHappenInTheOrderTheyWerePlanned) {
  SimLoop loop;
  std::vector<int> happened;
  for (int i = 0; i < 100; ++i) loop.at(1s, [&happened, i] { happened.push_back(i); });
  loop.run(sleep_until(loop, 1s));
  ASSERT_EQ(happened.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(happened[static_cast<std::size_t>(i)], i);
}

TEST(SimLoop, AnEventMayPlanAnotherForNow) {
  SimLoop loop;
  std::vector<int> happened;
  loop.at(1s, [&] {
    loop.at(loop.now(), [&] { happened.push_back(3); });
    happened.push_back(1);
  });
  loop.at(1s, [&] { happened.push_back(2); });
  loop.run(sleep_until(loop, 2s));
  EXPECT_EQ(happened, (std::vector<int>{1, 2, 3}));
}

TEST(SimLoop, ForgetsACancelledEvent) {
  SimLoop loop;
  std::vector<int> happened;
  loop.at(1s, [&] { happened.push_back(1); });
  const auto cancelled = loop.at(1s, [&] { happened.push_back(2); });
  loop.at(1s, [&] { happened.push_back(3); });
  loop.cancel(cancelled);
  loop.run(sleep_until(loop, 2s));
  EXPECT_EQ(happened, (std::vector<int>{1, 3}));
  loop.cancel(cancelled);  // once more does nothing
}

TEST(SimLoop, TakesNoRealTime) {
  SimLoop loop;
  const auto start = std::chrono::steady_clock::now();
  loop.run(sleep_until(loop, 24h * 365));
  EXPECT_EQ(loop.now(), 24h * 365);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
}

TEST(SimLoop, WakesSleepersAtTheirTimes) {
  SimLoop loop;
  std::vector<int> notes;
  const Running a(sleep_and_note(loop, 2s, 1, notes)), b(sleep_and_note(loop, 1s, 2, notes)),
      c(sleep_and_note(loop, 2s, 3, notes)), d(sleep_and_note(loop, 0s, 4, notes));
  loop.run(sleep_until(loop, 1s));
  EXPECT_EQ(notes, (std::vector<int>{4, 2}));
  loop.run(sleep_until(loop, 2s));
  EXPECT_EQ(notes, (std::vector<int>{4, 2, 1, 3}));
  EXPECT_EQ(loop.now(), 2s);
}

Task<> wait_forever() { co_await std::suspend_always(); }

TEST(SimLoop, DoesNotMoveTimeForASleepThatWasCancelled) {
  SimLoop loop;
  { const Running cancelled(sleep_until(loop, 1s)); }
  EXPECT_THROW(loop.run(wait_forever()), Error);
  EXPECT_EQ(loop.now(), 0s);
}

TEST(SimLoop, SaysSoWhenNothingWillEverHappen) {
  SimLoop loop;
  loop.at(3s, [] {});
  try {
    loop.run(wait_forever());
    ADD_FAILURE() << "it ended";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "the simulation is stuck: every rank waits and no message is under way");
  }
  EXPECT_EQ(loop.now(), 3s) << "what could happen has happened";
  loop.run(sleep_until(loop, 4s));  // and the loop can be used again
}

TEST(SimLoop, APollTakesWhatHasHappenedAndNothingThatIsStillToCome) {
  SimLoop loop;
  std::vector<int> happened;
  loop.at(0s, [&] { happened.push_back(0); });
  loop.at(1ns, [&] { happened.push_back(1); });
  loop.poll();
  EXPECT_EQ(happened, std::vector<int>{0});
  EXPECT_EQ(loop.now(), 0s);
}

TEST(SimLoop, TellsWhenAllThatHappensAtOneTimeHasHappened) {
  SimLoop loop;
  std::vector<std::pair<Time, int>> seen;
  int happened = 0;
  for (Time time : {1s, 1s, 1s, 2s, 4s}) loop.at(time, [&] { ++happened; });
  loop.before_time_moves([&] { seen.emplace_back(loop.now(), happened); });
  loop.run(sleep_until(loop, 4s));
  EXPECT_EQ(seen, (std::vector<std::pair<Time, int>>{{0s, 0}, {1s, 3}, {2s, 4}}));
}

TEST(SimLoopDeathTest, RefusesAnEventInThePast) {
  SimLoop loop;
  loop.run(sleep_until(loop, 2s));
  EXPECT_DEATH(loop.at(1s, [] {}), "an event was planned for the past");
}

}  // namespace
}  // namespace starling
