// How a message stands on the wire, the same for the sockets and for the simulator's byte counts:
// it goes in fragments, each behind a small header, so that a long message lets others through
// between its fragments.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace starling {

struct FrameHeader {
  static constexpr std::uint16_t kMagic = 0x5754;  // "TW", a bird's word
  enum class Kind : std::uint8_t {
    message,  // a fragment of a message
    goodbye,  // the sender leaves in good order and will send no more
    abort,    // the sender gives up because of rank `channel`
    hold,     // the sender has no space for more of `channel` until it is asked for
    resume,   // it has been asked for
  };

  std::uint16_t magic = kMagic;
  Kind kind = Kind::message;
  std::uint8_t purpose = 0;
  std::uint32_t channel = 0;
  std::uint64_t remaining_bytes = 0;  // of the message, this fragment included
};
static_assert(sizeof(FrameHeader) == 16);

// Longer than this is no model anybody trains with us, but a corrupt or hostile header.
inline constexpr std::uint64_t kMaxMessageBytes = std::uint64_t{1} << 36;

// Between two fragments another channel gets its turn: at 100 Mbit/s that is after 20 ms at the
// latest.
inline constexpr std::size_t kFragmentBytes = 256 * 1024;

inline std::size_t fragment_bytes(std::uint64_t remaining_bytes) {
  return static_cast<std::size_t>(std::min<std::uint64_t>(remaining_bytes, kFragmentBytes));
}

// Header and payload of all fragments of a message; an empty message is one header.
inline std::uint64_t wire_bytes(std::uint64_t payload_bytes) {
  const std::uint64_t fragments =
      std::max<std::uint64_t>(1, (payload_bytes + kFragmentBytes - 1) / kFragmentBytes);
  return payload_bytes + fragments * sizeof(FrameHeader);
}

}  // namespace starling
