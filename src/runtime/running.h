// Running: a Task that has been started and will be awaited later. Several may share a Signal, by
// which one coroutine waits for whichever of them finishes next; all() and race() are built from
// that.
#pragma once

#include <coroutine>
#include <exception>
#include <utility>

#include "runtime/clock.h"
#include "runtime/task.h"

namespace starling {

// Where one coroutine sleeps until a Running that knows this signal has finished. Whoever is
// cancelled meanwhile takes its wait away with it.
class Signal {
 public:
  class Wait : public Waiter {
   public:
    explicit Wait(Signal& signal) : signal_(signal) {}
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiter) noexcept {
      coroutine = waiter;
      signal_.waiting_.push_back(*this);
    }
    void await_resume() const noexcept {}

   private:
    Signal& signal_;
  };

  [[nodiscard]] Wait operator co_await() { return Wait(*this); }

  std::coroutine_handle<> take_waiter() noexcept {
    Waiter* waiter = waiting_.front();
    if (waiter == nullptr) return std::noop_coroutine();
    waiter->unlink();
    return waiter->coroutine;
  }

 private:
  List<Waiter> waiting_;
};

class Running {
 public:
  // Runs the task up to its first suspension.
  explicit Running(Task<> task) : Running(std::move(task), nullptr) {}
  Running(Task<> task, Signal& shared) : Running(std::move(task), &shared) {}
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() { frame_.destroy(); }

  bool done() const noexcept { return done_; }
  bool failed() const noexcept { return error_ != nullptr; }
  void rethrow_failure() const {
    if (error_) std::rethrow_exception(error_);
  }

  class Wait : public Signal::Wait {
   public:
    explicit Wait(Running& running) : Signal::Wait(*running.signal_), running_(running) {}
    bool await_ready() const noexcept { return running_.done_; }
    void await_resume() const { running_.rethrow_failure(); }

   private:
    Running& running_;
  };
  [[nodiscard]] Wait operator co_await() { return Wait(*this); }

 private:
  struct Frame {
    struct promise_type {
      Running& owner;

      promise_type(Running& running, Task<>&) noexcept : owner(running) {}
      Frame get_return_object() noexcept {
        return {std::coroutine_handle<promise_type>::from_promise(*this)};
      }
      std::suspend_always initial_suspend() noexcept { return {}; }
      auto final_suspend() noexcept {
        struct Final {
          bool await_ready() noexcept { return false; }
          std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> me) noexcept {
            Running& running = me.promise().owner;
            running.done_ = true;
            return running.signal_->take_waiter();
          }
          void await_resume() noexcept {}
        };
        return Final{};
      }
      void return_void() noexcept {}
      void unhandled_exception() noexcept { owner.error_ = std::current_exception(); }

      static void* operator new(std::size_t bytes) { return FramePool::allocate(bytes); }
      static void operator delete(void* frame, std::size_t bytes) {
        FramePool::release(frame, bytes);
      }
    };
    std::coroutine_handle<promise_type> handle;
  };

  Running(Task<> task, Signal* shared)
      : signal_(shared != nullptr ? shared : &own_), frame_(drive(std::move(task)).handle) {
    frame_.resume();
  }

  Frame drive(Task<> task) { co_await task; }

  Signal own_;
  Signal* signal_;
  bool done_ = false;
  std::exception_ptr error_;
  std::coroutine_handle<Frame::promise_type> frame_;
};

}  // namespace starling
