#include "exchange/move.h"

#include <algorithm>
#include <array>
#include <optional>

#include "exchange/segments.h"

namespace starling {

Task<> move(Comm& comm, Channel channel, Outgoing out, Incoming in) {
  const std::size_t to_send = segments(out.values.size());
  const std::size_t to_receive = segments(in.values.size());
  const std::size_t landing =
      in.combine == nullptr ? 0 : std::min(kSegmentElements, in.values.size());
  auto scratch = comm.lend<float>(landing * kWindow);
  std::array<std::optional<Receive>, kWindow> receives;
  std::array<std::optional<Send>, kWindow> sends;

  // Where segment i arrives: in place, or in one of the window's scratch areas until it is
  // combined.
  const auto place = [&](std::size_t i) {
    const auto target = segment(in.values, i);
    return in.combine == nullptr ? target
                                 : scratch.span().subspan(i % kWindow * landing, target.size());
  };
  const auto post_receive = [&](std::size_t i) {
    if (i < to_receive)
      receives[i % kWindow].emplace(comm, in.from, channel, writable_bytes(place(i)));
  };
  const auto post_send = [&](std::size_t i) {
    if (i < to_send)
      sends[i % kWindow].emplace(comm, out.to, channel, bytes_of(segment(out.values, i)));
  };

  for (std::size_t i = 0; i < kWindow; ++i) post_receive(i);
  for (std::size_t i = 0; i < kWindow; ++i) post_send(i);
  for (std::size_t i = 0; i < std::max(to_send, to_receive); ++i) {
    const std::size_t slot = i % kWindow;
    if (i < to_receive) {
      Receive& arrival = *receives[slot];
      co_await arrival;
    }
    if (i < to_send) {
      Send& departure = *sends[slot];
      co_await departure;  // before its memory changes
    }
    if (i < to_receive && in.combine != nullptr) in.combine(segment(in.values, i), place(i));
    post_send(i + kWindow);
    post_receive(i + kWindow);
  }
}

Task<> move(Comm& comm, Channel channel, Outgoing out) {
  return move(comm, channel, out, {out.to, {}});
}

Task<> move(Comm& comm, Channel channel, Incoming in) {
  return move(comm, channel, {in.from, {}}, in);
}

}  // namespace starling
