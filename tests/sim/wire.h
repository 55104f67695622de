// The channels and the network of the simulator's tests.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/comm.h"
#include "runtime/frame.h"
#include "sim/network.h"

namespace starling {

inline constexpr Channel kOne{1, Purpose::weights, "a test"};
inline constexpr Channel kTwo{2, Purpose::gradients, "another test"};

// 80 ns a byte, so that every transfer takes a whole number of nanoseconds.
inline constexpr Cable kLink{12.5e6, std::chrono::microseconds(100)};
inline const Network kLine{kLink, {}};
inline Time transfer(std::size_t payload_bytes) { return Time(80 * wire_bytes(payload_bytes)); }

using Payload = std::vector<std::byte>;

}  // namespace starling
