#pragma once

#include <string>

#include "base/error.h"
#include "runtime/comm.h"

namespace starling {

inline constexpr Channel kOne{1, Purpose::weights, "a test"};
inline constexpr Channel kTwo{2, Purpose::control, "another test"};

// What comes of waiting for a number on the first.
inline Task<> receive_number(Comm& comm, int peer, std::string& outcome) {
  int value = 0;
  try {
    co_await comm.receive(peer, kOne, object_bytes(value));
    outcome = std::to_string(value);
  } catch (const PeerLost& lost) {
    outcome = "lost " + std::to_string(lost.rank());
  } catch (const CutOff& cut_off) {
    outcome = cut_off.what();
  }
}

}  // namespace starling
