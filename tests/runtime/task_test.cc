#include "runtime/task.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>

#include "sim/sim_loop.h"
#include "tests/runtime/witness.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

Task<int> number(int value) { co_return value; }

Task<int> sum_of_three(int a, int b, int c) {
  const int first = co_await number(a);
  const int second = co_await number(b);
  const int third = co_await number(c);
  co_return first + second + third;
}

TEST(Task, GivesItsResultToItsAwaiter) {
  SimLoop loop;
  EXPECT_EQ(loop.run(sum_of_three(1, 20, 300)), 321);
}

Task<std::unique_ptr<int>> boxed(int value) { co_return std::make_unique<int>(value); }

TEST(Task, GivesAResultThatCanOnlyBeMoved) {
  SimLoop loop;
  const std::unique_ptr<int> box = loop.run(boxed(7));
  EXPECT_EQ(*box, 7);
}

Task<int> fail(Notes& notes) {
  Witness witness(notes, "the innermost went");
  throw std::out_of_range("a precise reason");
  co_return 0;
}

Task<int> pass_on(Notes& notes) {
  Witness witness(notes, "the middle went");
  const int result = co_await fail(notes);
  notes.push_back("the middle went on");
  co_return result;
}

Task<std::string> recover(Notes& notes) {
  std::string reason;
  try {
    co_await pass_on(notes);
  } catch (const std::out_of_range& error) {
    reason = error.what();
  }
  const int after = co_await number(5);  // it goes on as any other
  co_return reason + " " + std::to_string(after);
}

TEST(Task, PassesAnExceptionThroughToWhoeverCatchesIt) {
  SimLoop loop;
  Notes notes;
  EXPECT_EQ(loop.run(recover(notes)), "a precise reason 5");
  EXPECT_EQ(notes, (Notes{"the innermost went", "the middle went"}));
}

TEST(Task, PassesAnExceptionOutOfTheLoop) {
  SimLoop loop;
  Notes notes;
  EXPECT_THROW(loop.run(pass_on(notes)), std::out_of_range);
}

Task<> note(Notes& notes, std::string text) {
  notes.push_back(std::move(text));
  co_return;
}

Task<> await_late(Notes& notes) {
  Task<> lazy = note(notes, "ran");
  notes.push_back("made");
  co_await lazy;
}

TEST(Task, DoesNothingBeforeItIsAwaited) {
  SimLoop loop;
  Notes notes;
  { const Task<> never = note(notes, "ran"); }
  EXPECT_TRUE(notes.empty());
  loop.run(await_late(notes));
  EXPECT_EQ(notes, (Notes{"made", "ran"}));
}

Task<> hold(std::shared_ptr<int>) { co_return; }

TEST(Task, LetsItsParametersGoWhenItIsNeverAwaited) {
  const auto held = std::make_shared<int>(1);
  {
    const Task<> never = hold(held);
    EXPECT_EQ(held.use_count(), 2);
  }
  EXPECT_EQ(held.use_count(), 1);
}

Task<> sleep_inside(SimLoop& loop, Notes& notes) {
  Witness witness(notes, "inner");
  co_await sleep_until(loop, 1s);
  notes.push_back("slept");
}

Task<> sleep_outside(SimLoop& loop, Notes& notes) {
  Witness witness(notes, "outer");
  co_await sleep_inside(loop, notes);
}

TEST(Task, IsCancelledWithAllThatItWaitsForWhenItIsDestroyed) {
  SimLoop loop;
  Notes notes;
  {
    const Running running(sleep_outside(loop, notes));
    EXPECT_FALSE(running.done());
    EXPECT_TRUE(notes.empty());
  }
  EXPECT_EQ(notes, (Notes{"inner", "outer"}));
  loop.run(sleep_until(loop, 2s));  // past the time for which the sleep was planned
  EXPECT_EQ(notes.size(), 2u);
}

// GCC makes no tail calls below -O2 nor under its sanitizers, so there a resumed coroutine stands
// on the stack of the one that resumed it.
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
constexpr int kDepth = 100'000;
#else
constexpr int kDepth = 1'000;
#endif

Task<int> nest(SimLoop& loop, int depth) {
  if (depth == 0) {
    co_await sleep_until(loop, loop.now() + 1s);
    co_return 0;
  }
  const int below = co_await nest(loop, depth - 1);
  co_return below + 1;
}

Task<int> nest_without_waiting(int depth) {
  if (depth == 0) co_return 0;
  const int below = co_await nest_without_waiting(depth - 1);
  co_return below + 1;
}

Task<> fail_at(int depth) {
  if (depth == 0) throw std::runtime_error("from the depths");
  co_await fail_at(depth - 1);
}

TEST(Task, NestsAHundredThousandDeepWithoutUsingUpTheStack) {
  SimLoop loop;
  EXPECT_EQ(loop.run(nest(loop, kDepth)), kDepth);
  EXPECT_EQ(loop.run(nest_without_waiting(kDepth)), kDepth);
}

TEST(Task, PassesAnExceptionUpThroughManyAwaiters) {
  SimLoop loop;
  EXPECT_THROW(loop.run(fail_at(kDepth / 10)), std::runtime_error);
}

Task<long> await_many(int times) {
  long sum = 0;
  for (int i = 0; i < times; ++i) {
    const int value = co_await number(1);
    sum += value;
  }
  co_return sum;
}

TEST(Task, AwaitsAMillionTimesInARowWithoutUsingUpTheStack) {
  SimLoop loop;
  EXPECT_EQ(loop.run(await_many(10 * kDepth)), 10 * kDepth);
}

TEST(Task, MovesBeforeItIsAwaited) {
  SimLoop loop;
  Task<int> first = number(1);
  Task<int> second = std::move(first);
  EXPECT_EQ(loop.run(std::move(second)), 1);

  Task<int> third = number(3);
  third = number(4);  // the old one goes away unawaited
  EXPECT_EQ(loop.run(std::move(third)), 4);
}

Task<int> sum_of(std::vector<Task<int>> tasks) {
  int sum = 0;
  for (Task<int>& task : tasks) sum += co_await task;
  co_return sum;
}

TEST(Task, LivesInAVector) {
  SimLoop loop;
  std::vector<Task<int>> tasks;
  for (int i = 1; i <= 10; ++i) tasks.push_back(number(i));
  EXPECT_EQ(loop.run(sum_of(std::move(tasks))), 55);
}

}  // namespace
}  // namespace starling
