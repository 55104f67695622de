// Tasks that end, well or badly, at a given time.
#pragma once

#include <stdexcept>
#include <string>

#include "sim/sim_loop.h"
#include "tests/runtime/witness.h"

namespace starling {

inline Task<> work(SimLoop& loop, Time until, Notes& notes, std::string name) {
  Witness witness(notes, name + " went");
  co_await sleep_until(loop, until);
  notes.push_back(name + " finished");
}

inline Task<> fail(SimLoop& loop, Time until, std::string reason) {
  co_await sleep_until(loop, until);
  throw std::runtime_error(reason);
}

}  // namespace starling
