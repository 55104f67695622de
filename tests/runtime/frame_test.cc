#include "runtime/frame.h"

#include <gtest/gtest.h>

namespace starling {
namespace {

TEST(WireBytes, AddAHeaderForEveryFragment) {
  constexpr std::uint64_t kFragment = kFragmentBytes;
  EXPECT_EQ(wire_bytes(0), 16u);
  EXPECT_EQ(wire_bytes(1), 17u);
  EXPECT_EQ(wire_bytes(kFragment - 1), kFragment - 1 + 16);
  EXPECT_EQ(wire_bytes(kFragment), kFragment + 16);
  EXPECT_EQ(wire_bytes(kFragment + 1), kFragment + 1 + 32);
  EXPECT_EQ(wire_bytes(2 * kFragment), 2 * kFragment + 32);
  EXPECT_EQ(wire_bytes(kMaxMessageBytes), kMaxMessageBytes + kMaxMessageBytes / kFragment * 16);
}

// What a sender that follows fragment_bytes() really puts on the wire.
TEST(WireBytes, EqualWhatTheFragmentsAddUpTo) {
  for (std::uint64_t payload : {0u, 1u, 262'143u, 262'144u, 262'145u, 1'000'000u, 4'194'304u}) {
    std::uint64_t wire = 0, remaining = payload;
    do {
      const std::size_t fragment = fragment_bytes(remaining);
      ASSERT_LE(fragment, kFragmentBytes);
      wire += sizeof(FrameHeader) + fragment;
      remaining -= fragment;
    } while (remaining > 0);
    EXPECT_EQ(wire, wire_bytes(payload)) << payload;
  }
}

}  // namespace
}  // namespace starling
