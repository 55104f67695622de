// What a process takes.
#pragma once

#include <sys/resource.h>

#include <cstdint>

namespace starling {

// The most memory that this process has had at a time.
inline std::uint64_t peak_memory_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace starling
