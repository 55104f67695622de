#include "runtime/loop.h"

#include <gtest/gtest.h>

#include "sim/sim_loop.h"
#include "tests/runtime/witness.h"

namespace starling {
namespace {

// A place to wait until somebody opens it; then the loop resumes whoever waited.
class Gate : public Waiter {
 public:
  explicit Gate(Loop& loop) : loop_(loop) {}
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> awaiter) { coroutine = awaiter; }
  void await_resume() const {}
  void open() { loop_.ready(*this); }

 private:
  Loop& loop_;
};

Task<> pass(Gate& gate, Notes& notes, std::string name) {
  co_await gate;
  notes.push_back(name);
}

TEST(Loop, ResumesWhatIsReadyInTheOrderItBecameSo) {
  SimLoop loop;
  Notes notes;
  Gate one(loop), two(loop), three(loop);
  const Running a(pass(one, notes, "one")), b(pass(two, notes, "two")),
      c(pass(three, notes, "three"));
  two.open();
  three.open();
  one.open();
  EXPECT_TRUE(notes.empty()) << "ready means: resumed by the loop, not at once";
  loop.poll();
  EXPECT_EQ(notes, (Notes{"two", "three", "one"}));
}

Task<> pass_own_gate(Loop& loop, Gate*& gate, Notes& notes) {
  Gate own(loop);
  gate = &own;
  co_await own;
  notes.push_back("passed");
}

TEST(Loop, DoesNotResumeWhatWasCancelledWhenItWasReady) {
  SimLoop loop;
  Notes notes;
  {
    Gate* gate = nullptr;
    const Running cancelled(pass_own_gate(loop, gate, notes));
    gate->open();
  }
  loop.poll();
  EXPECT_TRUE(notes.empty());
}

TEST(Loop, PollReturnsWithoutWaiting) {
  SimLoop loop;
  const Running sleeper(sleep_until(loop, std::chrono::seconds(1)));
  loop.poll();
  EXPECT_FALSE(sleeper.done());
  EXPECT_EQ(loop.now(), Time(0));
}

}  // namespace
}  // namespace starling
