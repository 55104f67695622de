#include "runtime/all.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "sim/sim_loop.h"
#include "tests/runtime/timed_work.h"
#include "tests/runtime/witness.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

template <class... Tasks>
std::vector<Task<>> list(Tasks... tasks) {
  std::vector<Task<>> result;
  (result.push_back(std::move(tasks)), ...);
  return result;
}

std::string failure_of(SimLoop& loop, Task<> task) {
  try {
    loop.run(std::move(task));
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "none";
}

TEST(All, WaitsForAllSideBySide) {
  SimLoop loop;
  Notes notes;
  loop.run(all(list(work(loop, 2s, notes, "a"), work(loop, 3s, notes, "b"),
                    work(loop, 1s, notes, "c"), work(loop, 0s, notes, "d"))));
  EXPECT_EQ(loop.now(), 3s) << "the longest, not the sum";
  EXPECT_EQ(notes, (Notes{"d finished", "d went", "c finished", "c went", "a finished", "a went",
                          "b finished", "b went"}));
}

TEST(All, OfNothingIsDoneAtOnce) {
  SimLoop loop;
  loop.run(all({}));
  EXPECT_EQ(loop.now(), 0s);
}

TEST(All, CancelsTheOthersAtTheFirstFailureAndRethrowsIt) {
  SimLoop loop;
  Notes notes;
  EXPECT_EQ(
      failure_of(loop, all(list(work(loop, 1s, notes, "early"), fail(loop, 2s, "the first"),
                                fail(loop, 3s, "the second"), work(loop, 4s, notes, "late")))),
      "the first");
  EXPECT_EQ(loop.now(), 2s);
  EXPECT_EQ(notes, (Notes{"early finished", "early went", "late went"}));
  loop.run(sleep_until(loop, 10s));
  EXPECT_EQ(notes.size(), 3u) << "nothing goes on behind the caller's back";
}

TEST(All, DoesNotStartTheRestWhenOneFailsAtOnce) {
  SimLoop loop;
  Notes notes;
  EXPECT_EQ(failure_of(loop, all(list(work(loop, 1s, notes, "before"), fail(loop, 0s, "at once"),
                                      work(loop, 0s, notes, "after")))),
            "at once");
  EXPECT_EQ(loop.now(), 0s);
  EXPECT_EQ(notes, Notes{"before went"});
}

Task<> fail_when(Signal& signal) {
  co_await signal;
  throw std::runtime_error("while another one started");
}

Task<> wake_and_sleep(SimLoop& loop, Signal& signal, Notes& notes) {
  Witness witness(notes, "sleeper went");
  signal.take_waiter().resume();
  co_await sleep_until(loop, 1h);
}

TEST(All, NoticesAFailureThatHappensWhileALaterOneStarts) {
  SimLoop loop;
  Notes notes;
  Signal signal;
  EXPECT_EQ(failure_of(loop, all(list(fail_when(signal), wake_and_sleep(loop, signal, notes)))),
            "while another one started");
  EXPECT_EQ(loop.now(), 0s);
  EXPECT_EQ(notes, Notes{"sleeper went"});
}

TEST(All, CancelsAllWhenItIsCancelled) {
  SimLoop loop;
  Notes notes;
  {
    const Running running(all(list(work(loop, 1s, notes, "a"), work(loop, 2s, notes, "b"))));
    EXPECT_TRUE(notes.empty());
  }
  EXPECT_EQ(notes.size(), 2u);
  loop.run(sleep_until(loop, 5s));
  EXPECT_EQ(notes.size(), 2u);
}

TEST(All, NestsInItself) {
  SimLoop loop;
  Notes notes;
  EXPECT_EQ(
      failure_of(loop,
                 all(list(all(list(work(loop, 5s, notes, "a"))),
                          all(list(work(loop, 1s, notes, "b"), fail(loop, 2s, "deep inside")))))),
      "deep inside");
  EXPECT_EQ(notes, (Notes{"b finished", "b went", "a went"}));
}

}  // namespace
}  // namespace starling
