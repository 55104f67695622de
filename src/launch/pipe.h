#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"

namespace starling {

struct Pipe {
  int read_end;
  int write_end;
};

// That no program which is started gets.
inline Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw Error(fmt::format("no pipe: {}", ::strerror(errno)));
  return {ends[0], ends[1]};
}

}  // namespace starling
