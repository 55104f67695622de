// Bell: where coroutines sleep until something they look at may have changed. Ringing it lets all
// of them go on, behind those that are ready already.
#pragma once

#include "runtime/loop.h"

namespace starling {

class Bell {
 public:
  explicit Bell(Loop& loop) : loop_(loop) {}

  class Wait : public Waiter {
   public:
    explicit Wait(Bell& bell) : bell_(bell) {}
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> awaiter) noexcept {
      coroutine = awaiter;
      bell_.sleepers_.push_back(*this);
    }
    void await_resume() const noexcept {}

   private:
    Bell& bell_;
  };

  [[nodiscard]] Wait rung() { return Wait(*this); }

  void ring() {
    while (Waiter* sleeper = sleepers_.front()) loop_.ready(*sleeper);
  }

 private:
  Loop& loop_;
  List<Waiter> sleepers_;
};

}  // namespace starling
