// Long vectors go in *segments*, so that combining one overlaps receiving the next, and what was
// received is still in the cache when it is combined. A window of segments is under way in each
// direction. Both sides must cut alike.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace starling {

// Measured by `starling bench exchange`; see docs/performance.md.
inline constexpr std::size_t kSegmentElements = 64 * 1024;
inline constexpr std::size_t kWindow = 4;

inline std::size_t segments(std::size_t elements) {
  return (elements + kSegmentElements - 1) / kSegmentElements;
}

template <class T>
std::span<T> segment(std::span<T> values, std::size_t index) {
  const std::size_t begin = index * kSegmentElements;
  return values.subspan(begin, std::min(kSegmentElements, values.size() - begin));
}

}  // namespace starling
