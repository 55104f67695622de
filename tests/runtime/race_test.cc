#include "runtime/race.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "sim/sim_loop.h"
#include "tests/runtime/timed_work.h"
#include "tests/runtime/witness.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

TEST(Race, SaysWhoWonAndCancelsTheLoser) {
  for (int winner : {0, 1}) {
    SimLoop loop;
    Notes notes;
    EXPECT_EQ(loop.run(race(work(loop, winner == 0 ? 1s : 3s, notes, "first"),
                            work(loop, winner == 1 ? 1s : 3s, notes, "second"))),
              winner);
    EXPECT_EQ(loop.now(), 1s);
    EXPECT_EQ(notes, winner == 0 ? (Notes{"first finished", "first went", "second went"})
                                 : (Notes{"second finished", "second went", "first went"}));
    loop.run(sleep_until(loop, 10s));
    EXPECT_EQ(notes.size(), 3u) << "the loser went on";
  }
}

TEST(Race, GoesToTheFirstWhenBothFinishAtTheSameTime) {
  SimLoop loop;
  Notes notes;
  EXPECT_EQ(loop.run(race(work(loop, 1s, notes, "a"), work(loop, 1s, notes, "b"))), 0);
}

TEST(Race, DoesNotStartTheSecondWhenTheFirstIsDoneAtOnce) {
  SimLoop loop;
  Notes notes;
  EXPECT_EQ(loop.run(race(work(loop, 0s, notes, "a"), work(loop, 0s, notes, "b"))), 0);
  EXPECT_EQ(notes, (Notes{"a finished", "a went"}));
}

TEST(Race, IsWonByAFailureToo) {
  for (bool first_fails : {true, false}) {
    SimLoop loop;
    Notes notes;
    Task<> failing = fail(loop, 1s, "out of breath");
    Task<> working = work(loop, 2s, notes, "the other");
    Task<int> contest = first_fails ? race(std::move(failing), std::move(working))
                                    : race(std::move(working), std::move(failing));
    try {
      loop.run(std::move(contest));
      ADD_FAILURE() << "no failure";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "out of breath");
    }
    EXPECT_EQ(notes, Notes{"the other went"});
    EXPECT_EQ(loop.now(), 1s);
  }
}

TEST(Race, IgnoresAFailureThatWouldComeLater) {
  SimLoop loop;
  Notes notes;
  EXPECT_EQ(loop.run(race(fail(loop, 2s, "too late"), work(loop, 1s, notes, "quick"))), 1);
}

TEST(Within, ThrowsExactlyAtTheDeadlineAndNamesTheOperation) {
  SimLoop loop;
  Notes notes;
  try {
    loop.run(within(loop, 1500ms, "a ring all-reduce", work(loop, 1h, notes, "slow")));
    ADD_FAILURE() << "no deadline";
  } catch (const DeadlineExceeded& error) {
    EXPECT_EQ(
        std::string(error.what()).find("a ring all-reduce did not finish before its deadline"), 0u)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("--timeout"), std::string::npos) << "no remedy";
  }
  EXPECT_EQ(loop.now(), 1500ms);
  EXPECT_EQ(notes, Notes{"slow went"});
}

TEST(Within, LetsWhatFinishesInTimeFinish) {
  SimLoop loop;
  Notes notes;
  loop.run(within(loop, 2s, "a test", work(loop, 2s - 1ns, notes, "timely")));
  EXPECT_EQ(loop.now(), 2s - 1ns);
  EXPECT_EQ(notes, (Notes{"timely finished", "timely went"}));
}

TEST(Within, PassesAFailureThroughAsItIs) {
  SimLoop loop;
  try {
    loop.run(within(loop, 2s, "a test", fail(loop, 1s, "another reason")));
    ADD_FAILURE() << "no failure";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "another reason");
  }
  EXPECT_EQ(loop.now(), 1s);
}

TEST(Within, GivesADeadlineThatIsPastNoTimeAtAll) {
  SimLoop loop;
  Notes notes;
  loop.run(sleep_until(loop, 5s));
  EXPECT_THROW(loop.run(within(loop, 3s, "a test", work(loop, 6s, notes, "late"))),
               DeadlineExceeded);
  EXPECT_EQ(loop.now(), 5s);
  loop.run(within(loop, 3s, "a test", work(loop, 5s, notes, "immediate")));
  EXPECT_EQ(notes, (Notes{"late went", "immediate finished", "immediate went"}));
}

TEST(Within, TheShorterOfTwoDeadlinesCounts) {
  SimLoop loop;
  Notes notes;
  try {
    loop.run(
        within(loop, 2s, "the whole", within(loop, 1s, "the part", work(loop, 5s, notes, "work"))));
    ADD_FAILURE() << "no deadline";
  } catch (const DeadlineExceeded& error) {
    EXPECT_EQ(std::string(error.what()).find("the part"), 0u) << error.what();
  }
  EXPECT_EQ(loop.now(), 1s);
}

}  // namespace
}  // namespace starling
