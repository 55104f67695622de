#include "exchange/move.h"

#include <algorithm>
#include <array>
#include <optional>

#include "exchange/segments.h"

namespace starling {

Task<> move(Group group, Channel channel, Outgoing out, Incoming in) {
  const std::size_t to_send = segments(out.values);
  const std::size_t to_receive = segments(in.values);
  const std::size_t landing =
      in.combine == nullptr ? 0 : std::min(kSegmentBytes, in.values.bytes().size());
  auto scratch = group.lend<std::byte>(landing * kWindow);
  std::array<std::optional<Receive>, kWindow> receives;
  std::array<std::optional<Send>, kWindow> sends;

  // Where segment i arrives: in place, or in one of the window's scratch areas until it is
  // combined.
  const auto place = [&](std::size_t i) {
    const Vector target = segment(in.values, i);
    std::byte* const aside = scratch.span().data() + i % kWindow * landing;
    return in.combine == nullptr ? target : Vector(target.type(), aside, target.size());
  };
  const auto post_receive = [&](std::size_t i) {
    if (i < to_receive) receives[i % kWindow].emplace(group, in.from, channel, place(i).bytes());
  };
  const auto post_send = [&](std::size_t i) {
    if (i < to_send)
      sends[i % kWindow].emplace(group, out.to, channel, segment(out.values, i).bytes());
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

Task<> move(Group group, Channel channel, Outgoing out) {
  return move(group, channel, out, {out.to, {}});
}

Task<> move(Group group, Channel channel, Incoming in) {
  return move(group, channel, {in.from, {}}, in);
}

}  // namespace starling
