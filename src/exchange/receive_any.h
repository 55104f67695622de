// A message from whoever sends one first.
#pragma once

#include "runtime/group.h"

namespace starling {

// Receives one message of that very size on the channel, and says at which place its sender stands.
// Whoever else sends on it meanwhile is not heard: that message is for the next receive. Ranks that
// have left in good order are not waited for.
Task<> receive_any(Group group, Channel channel, Bytes bytes, int& from);

}  // namespace starling
