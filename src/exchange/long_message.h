// A long message: only its sender knows beforehand how long it is. It says so first, and the receiver's
// memory grows with what has come, not with what was said.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "runtime/group.h"
#include "runtime/task.h"

namespace starling {

inline constexpr std::size_t kLongMessagePieceBytes = 16 << 20;

// The bytes must stay until it is done.
inline Task<> send_long(Group group, int to, Channel channel, ConstBytes bytes) {
  std::uint64_t length = bytes.size();
  co_await group.send(to, channel, object_bytes(length));
  while (!bytes.empty()) {
    const ConstBytes piece = bytes.first(std::min(bytes.size(), kLongMessagePieceBytes));
    co_await group.send(to, channel, piece);
    bytes = bytes.subspan(piece.size());
  }
}

// Throws Error if there would be more than that many.
inline Task<> receive_long(Group group, int from, Channel channel, std::size_t most_bytes,
                           std::vector<std::byte>& into) {
  std::uint64_t length = 0;
  co_await group.receive(from, channel, object_bytes(length));
  if (length > most_bytes) {
    throw Error(fmt::format("rank {} would hand over {} bytes, which cannot be",
                            group.in_comm(from), length));
  }
  into.clear();
  while (into.size() < length) {
    const std::size_t before = into.size();
    into.resize(before +
                std::min(static_cast<std::size_t>(length) - before, kLongMessagePieceBytes));
    co_await group.receive(from, channel, std::span(into).subspan(before));
  }
}

}  // namespace starling
