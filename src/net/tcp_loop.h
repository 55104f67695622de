// The real world's loop: the kernel's events and steady time, by Asio.
#pragma once

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>

#include "runtime/loop.h"

namespace starling {

class TcpLoop : public Loop {
 public:
  TcpLoop();

  Time now() const override;
  // How long a processor has worked for the thread that asks.
  static Time processor_time();
  asio::io_context& io() { return io_; }
  // What happens without the kernel's telling is looked for whenever there is nothing to do, in turns
  // with the kernel's events. That costs a processor for a moment after the last event, then little.
  class Source {
   public:
    virtual bool look() = 0;  // whether something has happened

   protected:
    ~Source() = default;
  };
  void look_at(Source* source) { source_ = source; }  // nullptr: no more
  // From any thread: wakes the thread that drives this loop, which then does that.
  template <class Action>
  void call(Action action) {
    asio::post(io_, std::move(action));
  }

 private:
  void post(Sleep& sleep) override;
  void withdraw(Sleep& sleep) override { sleep.unlink(); }
  void wait_for_event() override;
  bool take_events() override {
    return io_.poll_one() > 0 || (source_ != nullptr && source_->look());
  }

  void arm_timer();
  void wake_sleepers();

  asio::io_context io_{1};  // one thread: Asio may leave out its locks
  asio::executor_work_guard<asio::io_context::executor_type> stay_{io_.get_executor()};
  std::chrono::steady_clock::time_point start_;
  Source* source_ = nullptr;

  // Sleepers are few (deadlines, a sampler), so they stand in a plain list, and one timer serves
  // the earliest.
  List<Sleep> sleepers_;
  asio::steady_timer timer_;
  Time armed_until_ = Time::max();
};

}  // namespace starling
