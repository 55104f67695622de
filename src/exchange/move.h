// Moving a vector to one rank while another one's vector comes in: the step that exchanges are made
// of. Long ones go in segments (exchange/segments.h).
#pragma once

#include <span>

#include "runtime/comm.h"

namespace starling {

// What happens to an arriving segment: combine(into, arrived). nullptr: it replaces what was there.
using Combine = void (*)(std::span<float> into, std::span<const float> arrived);

struct Outgoing {
  int to;
  std::span<const float> values;
};
struct Incoming {
  int from;
  std::span<float> values;
  Combine combine = nullptr;
};

// Sends and receives at the same time. Both may be the same memory if combine is set: a segment is
// sent as it was before anything is combined into it.
Task<> move(Comm& comm, Channel channel, Outgoing out, Incoming in);
Task<> move(Comm& comm, Channel channel, Outgoing out);
Task<> move(Comm& comm, Channel channel, Incoming in);

}  // namespace starling
