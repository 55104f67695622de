#include "runtime/bell.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "runtime/all.h"
#include "sim/sim_loop.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

Task<> note_when_rung(Bell& bell, char name, std::string& notes) {
  co_await bell.rung();
  notes += name;
}

Task<> ring_later(SimLoop& loop, Bell& bell, std::string& notes) {
  co_await sleep_until(loop, 1ms);
  bell.ring();
  notes += '!';  // those it wakes go on behind what is ready, not at once
}

TEST(Bell, LetsAllWhoSleepGoOnInTheOrderInWhichTheyCame) {
  SimLoop loop;
  Bell bell(loop);
  std::string notes;
  std::vector<Task<>> tasks;
  tasks.push_back(note_when_rung(bell, 'a', notes));
  tasks.push_back(note_when_rung(bell, 'b', notes));
  tasks.push_back(ring_later(loop, bell, notes));
  loop.run(all(std::move(tasks)));
  EXPECT_EQ(notes, "!ab");
}

TEST(Bell, ARingThatNobodyHearsIsForgotten) {
  SimLoop loop;
  Bell bell(loop);
  std::string notes;
  bell.ring();
  EXPECT_THROW(loop.run(note_when_rung(bell, 'a', notes)), std::exception);  // it sleeps for ever
  EXPECT_EQ(notes, "");
}

TEST(Bell, WhoIsCancelledAfterTheRingDoesNotGoOn) {
  SimLoop loop;
  Bell bell(loop);
  std::string notes;
  std::optional<Running> sleeper(std::in_place, note_when_rung(bell, 'a', notes));
  bell.ring();
  sleeper.reset();
  loop.poll();
  EXPECT_EQ(notes, "");
}

}  // namespace
}  // namespace starling
