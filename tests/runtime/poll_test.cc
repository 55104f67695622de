#include <gtest/gtest.h>

#include "runtime/bell.h"
#include "runtime/running.h"
#include "sim/sim_loop.h"

namespace starling {
namespace {

Task<> note_ring(Bell& bell, bool& rung) {
  co_await bell.rung();
  rung = true;
}

// Whoever an event has made ready goes on before the poll is over: who polls between two pieces of
// work may not come back for long.
TEST(Poll, GoesOnWithWhatItsEventsMadeReady) {
  SimLoop loop;
  Bell bell(loop), second_bell(loop);
  bool rung = false, second_rung = false;
  Running waiting(note_ring(bell, rung)), second(note_ring(second_bell, second_rung));
  loop.at(loop.now(), [&] { bell.ring(); });
  loop.at(loop.now(), [&] { second_bell.ring(); });
  loop.poll();
  EXPECT_TRUE(rung);
  EXPECT_TRUE(second_rung);
}

}  // namespace
}  // namespace starling
