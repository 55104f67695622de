#include "runtime/running.h"

#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>

#include "sim/sim_loop.h"
#include "tests/runtime/witness.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

Task<> work(SimLoop& loop, Time until, Notes& notes) {
  Witness witness(notes, "gone");
  notes.push_back("started");
  co_await sleep_until(loop, until);
  notes.push_back("finished");
}

Task<> fail(SimLoop& loop, Time until) {
  co_await sleep_until(loop, until);
  throw std::runtime_error("it failed");
}

TEST(Running, StartsAtOnceAndRunsToTheFirstWait) {
  SimLoop loop;
  Notes notes;
  Running running(work(loop, 1s, notes));
  EXPECT_EQ(notes, Notes{"started"});
  EXPECT_FALSE(running.done());
  loop.drive(running);
  EXPECT_TRUE(running.done());
  EXPECT_EQ(loop.now(), 1s);
  EXPECT_EQ(notes, (Notes{"started", "finished", "gone"}));
}

TEST(Running, IsDoneAtOnceWhenThereIsNothingToWaitFor) {
  SimLoop loop;
  Notes notes;
  const Running running(work(loop, 0s, notes));
  EXPECT_TRUE(running.done());
  EXPECT_FALSE(running.failed());
}

TEST(Running, GoesOnWhileItsOwnerDoesOtherThings) {
  SimLoop loop;
  Notes notes;
  const Running running(work(loop, 1s, notes));
  loop.run(sleep_until(loop, 5s));
  EXPECT_TRUE(running.done());
}

TEST(Running, CancelsWhenItIsDestroyed) {
  SimLoop loop;
  Notes notes;
  { const Running running(work(loop, 1s, notes)); }
  EXPECT_EQ(notes, (Notes{"started", "gone"}));
  loop.run(sleep_until(loop, 5s));
  EXPECT_EQ(notes.size(), 2u);
}

TEST(Running, KeepsItsFailureUntilItIsAskedFor) {
  SimLoop loop;
  const Running running(fail(loop, 1s));
  EXPECT_NO_THROW(running.rethrow_failure());
  loop.run(sleep_until(loop, 2s));
  EXPECT_TRUE(running.done());
  EXPECT_TRUE(running.failed());
  EXPECT_THROW(running.rethrow_failure(), std::runtime_error);
  EXPECT_THROW(running.rethrow_failure(), std::runtime_error) << "it is still there";
}

Task<> start_two_and_await_both(SimLoop& loop, Notes& notes, std::vector<Time>& times) {
  Running slow(work(loop, 3s, notes));
  Running quick(work(loop, 1s, notes));
  co_await slow;
  times.push_back(loop.now());
  co_await quick;  // long done: no wait
  times.push_back(loop.now());
}

TEST(Running, IsAwaitedWheneverItSuits) {
  SimLoop loop;
  Notes notes;
  std::vector<Time> times;
  loop.run(start_two_and_await_both(loop, notes, times));
  EXPECT_EQ(times, (std::vector<Time>{3s, 3s}));
}

Task<std::string> await_failure(SimLoop& loop) {
  Running running(fail(loop, 1s));
  std::string reason = "none";
  try {
    co_await running;
  } catch (const std::runtime_error& error) {
    reason = error.what();
  }
  co_return reason;
}

TEST(Running, ThrowsItsFailureAtItsAwaiter) {
  SimLoop loop;
  EXPECT_EQ(loop.run(await_failure(loop)), "it failed");
}

Task<> await_another(Running& another, Notes& notes) {
  Witness witness(notes, "waiter gone");
  co_await another;
  notes.push_back("waiter went on");
}

TEST(Running, ForgetsAWaiterThatWasCancelled) {
  SimLoop loop;
  Notes notes;
  Running running(work(loop, 1s, notes));
  { const Running cancelled(await_another(running, notes)); }
  const Running other(await_another(running, notes));  // in the memory of the one before
  loop.run(sleep_until(loop, 2s));
  EXPECT_TRUE(other.done());
  EXPECT_EQ(notes,
            (Notes{"started", "waiter gone", "finished", "gone", "waiter went on", "waiter gone"}));
}

TEST(Running, MayGoBeforeWhoWaitsForIt) {
  SimLoop loop;
  Notes notes;
  std::optional<Running> running(std::in_place, work(loop, 1s, notes));
  {
    const Running waiter(await_another(*running, notes));
    running.reset();
    loop.run(sleep_until(loop, 2s));
    EXPECT_FALSE(waiter.done());
  }
  EXPECT_EQ(notes, (Notes{"started", "gone", "waiter gone"}));
}

Task<> wait_for(Signal& signal, Notes& notes) {
  co_await signal;
  notes.push_back("went on");
}

TEST(Signal, ForgetsAWaiterThatWasCancelled) {
  Notes notes;
  Signal signal;
  { const Running cancelled(wait_for(signal, notes)); }
  signal.take_waiter().resume();
  EXPECT_TRUE(notes.empty());
}

Task<> wait_for_next(SimLoop& loop, Notes& notes, std::vector<Time>& woken) {
  Signal signal;
  Running late(work(loop, 3s, notes), signal);
  Running early(work(loop, 1s, notes), signal);
  while (!late.done() || !early.done()) {
    co_await signal;
    woken.push_back(loop.now());
  }
}

TEST(Signal, WakesItsWaiterForEachThatFinishes) {
  SimLoop loop;
  Notes notes;
  std::vector<Time> woken;
  loop.run(wait_for_next(loop, notes, woken));
  EXPECT_EQ(woken, (std::vector<Time>{1s, 3s}));
}

}  // namespace
}  // namespace starling
