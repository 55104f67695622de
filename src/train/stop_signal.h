// SIGTERM as a wish: from the time that one of these is made, the launcher's word to stop is something
// that the training loop looks for between two steps.
#pragma once

#include <signal.h>

namespace starling {

class StopSignal {
 public:
  StopSignal() {
    struct sigaction action {};
    action.sa_handler = [](int) { asked_ = 1; };
    ::sigaction(SIGTERM, &action, &before_);
  }
  ~StopSignal() { ::sigaction(SIGTERM, &before_, nullptr); }
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  bool asked() const { return asked_ != 0; }

 private:
  // Of the process: a signal has no other place to go.
  static inline volatile sig_atomic_t asked_ = 0;
  struct sigaction before_ {};
};

}  // namespace starling
