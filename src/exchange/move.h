// Moving a vector to one rank while another one's vector comes in: the step that exchanges are made
// of. Long ones go in segments (exchange/segments.h).
#pragma once

#include "math/reduce.h"
#include "runtime/group.h"

namespace starling {

struct Outgoing {
  int to;
  ConstVector values;
};
struct Incoming {
  int from;
  Vector values;
  Combine combine =
      nullptr;  // what happens to a segment that has come; nullptr: it takes the place
                // of what was there
};

// Sends and receives at the same time. Both may be the same memory if combine is set: a segment is
// sent as it was before anything is combined into it.
Task<> move(Group group, Channel channel, Outgoing out, Incoming in);
Task<> move(Group group, Channel channel, Outgoing out);
Task<> move(Group group, Channel channel, Incoming in);

}  // namespace starling
