// As on a full disk: while this is there, no file can grow beyond so many bytes.
#pragma once

#include <signal.h>
#include <sys/resource.h>

namespace starling {

class SmallFiles {
 public:
  explicit SmallFiles(rlim_t most_bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{most_bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    handler_ = ::signal(SIGXFSZ, SIG_IGN);
  }
  ~SmallFiles() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }
  SmallFiles(const SmallFiles&) = delete;
  SmallFiles& operator=(const SmallFiles&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

}  // namespace starling
