// A barrier that can tell who did not come.
#pragma once

#include <vector>

#include "runtime/group.h"

namespace starling {

// Nobody leaves before everybody has come, or the deadline is over; then `missing` has the places of
// those who had not come by then, the same on every rank that place 0 can still tell. If that is place
// 0 itself, only it is named. Unless all are to be named, the first one is enough.
//
//   A. Everybody tells place 0 that it is here.
//   B. When all have come, or at the deadline, place 0 tells everybody who is missing.
Task<> monitored_barrier(Group group, Channel channel, Time deadline, bool name_all,
                         std::vector<int>& missing);

}  // namespace starling
