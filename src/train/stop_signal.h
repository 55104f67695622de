// Signals as wishes: from the time that one of these is made, the launcher's word to stop is something
// that the training loop looks for between two steps. SIGTERM asks all to stop; where workers come and
// go it asks only this one to leave, and SIGINT asks all. SIGUSR1 asks all anyway: Slurm sends it to every
// process of a step.
#pragma once

#include <signal.h>

namespace starling {

class StopSignal {
 public:
  explicit StopSignal(bool is_elastic) : is_elastic_(is_elastic) {
    struct sigaction action {};
    action.sa_handler = [](int signal) { (signal == SIGTERM ? terminated_ : interrupted_) = 1; };
    ::sigaction(SIGTERM, &action, &before_terminate_);
    ::sigaction(SIGUSR1, &action, &before_user_);
    if (is_elastic_) ::sigaction(SIGINT, &action, &before_interrupt_);
  }
  ~StopSignal() {
    ::sigaction(SIGTERM, &before_terminate_, nullptr);
    ::sigaction(SIGUSR1, &before_user_, nullptr);
    if (is_elastic_) ::sigaction(SIGINT, &before_interrupt_, nullptr);
  }
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  bool asked() const { return interrupted_ != 0 || (!is_elastic_ && terminated_ != 0); }
  bool asked_to_leave() const { return is_elastic_ && terminated_ != 0; }

 private:
  // Of the process: a signal has no other place to go.
  static inline volatile sig_atomic_t terminated_ = 0, interrupted_ = 0;
  bool is_elastic_;
  struct sigaction before_terminate_ {};
  struct sigaction before_interrupt_ {};
  struct sigaction before_user_ {};
};

}  // namespace starling
