#include "sim/rank_threads.h"

#include <utility>

#include "base/check.h"

namespace starling {

namespace {

// Ends the wait of a rank that is no more.
struct Cancelled : std::exception {
  const char* what() const noexcept override { return "this rank is no more"; }
};

thread_local RankThread* this_rank = nullptr;

Task<> live_in_thread(Comm& comm, const std::function<void(Comm&)> program,
                      const std::function<void(int)> swap) {
  RankThread thread(
      comm.loop(), [&] { program(comm); }, [&] { swap(comm.rank()); });
  while (Running* awaited = thread.go_on()) {
    while (!awaited->done()) {
      try {
        co_await *awaited;
      } catch (...) {  // the thread sees it
      }
    }
  }
}

}  // namespace

Cluster::Program in_threads(std::function<void(Comm&)> program,
                            std::function<void(int rank)> swap) {
  return [program = std::move(program), swap = std::move(swap)](Comm& comm) {
    return live_in_thread(comm, program, swap);
  };
}

RankThread::RankThread(Loop& loop, std::function<void()> program, std::function<void()> swap)
    : loop_(loop),
      swap_(std::move(swap)),
      thread_([this, body = std::move(program)] { run(body); }) {}

RankThread::~RankThread() {
  STARLING_CHECK(this_rank != this, "a rank ends itself in the middle of what it does");
  {
    std::unique_lock lock(mutex_);
    cancelled_ = true;
    has_baton_ = true;
    handed_over_.notify_all();
  }
  thread_.join();
}

RankThread* RankThread::current(const Loop& loop) {
  return this_rank != nullptr && &this_rank->loop_ == &loop ? this_rank : nullptr;
}

Running* RankThread::go_on() {
  std::unique_lock lock(mutex_);
  has_baton_ = true;
  handed_over_.notify_all();
  handed_over_.wait(lock, [this] { return !has_baton_; });
  if (error_) std::rethrow_exception(error_);
  return done_ ? nullptr : awaited_;
}

void RankThread::wait_for(Running& running) {
  if (cancelled_) throw Cancelled();
  if (running.done()) return;
  awaited_ = &running;
  swap_();
  hand_back();
  swap_();
  if (cancelled_) throw Cancelled();
}

void RankThread::run(const std::function<void()>& program) {
  this_rank = this;
  {
    std::unique_lock lock(mutex_);
    handed_over_.wait(lock, [this] { return has_baton_; });
  }
  if (cancelled_) return;
  swap_();
  try {
    program();
  } catch (...) {
    error_ = std::current_exception();
  }
  swap_();
  std::unique_lock lock(mutex_);
  done_ = true;
  has_baton_ = false;
  handed_over_.notify_all();
}

void RankThread::hand_back() {
  std::unique_lock lock(mutex_);
  has_baton_ = false;
  handed_over_.notify_all();
  handed_over_.wait(lock, [this] { return has_baton_; });
}

}  // namespace starling
