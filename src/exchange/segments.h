// Long vectors go in *segments*, so that combining one overlaps receiving the next, and what was
// received is still in the cache when it is combined. A window of segments is under way in each
// direction. Both sides must cut alike.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/vector.h"

namespace starling {

// Measured by `starling bench exchange`; see docs/performance.md.
inline constexpr std::size_t kSegmentBytes = 256 * 1024;
inline constexpr std::size_t kWindow = 4;

inline std::size_t segments(ConstVector values) {
  return (values.bytes().size() + kSegmentBytes - 1) / kSegmentBytes;
}

template <class Byte>
BasicVector<Byte> segment(BasicVector<Byte> values, std::size_t index) {
  const std::size_t elements = kSegmentBytes / values.element_bytes();
  const std::size_t begin = index * elements;
  return values.subspan(begin, std::min(elements, values.size() - begin));
}

}  // namespace starling
