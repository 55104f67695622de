// A file that is nowhere but in memory, for readers that want a path.
#pragma once

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>

#include "base/bytes.h"

namespace starling {

class MemoryFile {
 public:
  explicit MemoryFile(ConstBytes bytes) : fd_(memfd_create("fuzz", 0)) {
    while (!bytes.empty()) {
      const ssize_t taken = write(fd_, bytes.data(), bytes.size());
      if (taken <= 0) break;
      bytes = bytes.subspan(static_cast<std::size_t>(taken));
    }
  }
  ~MemoryFile() { close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::filesystem::path path() const { return fmt::format("/proc/self/fd/{}", fd_); }

 private:
  int fd_;
};

}  // namespace starling
