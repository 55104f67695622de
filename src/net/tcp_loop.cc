#include "net/tcp_loop.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <thread>

#include "net/pooled.h"

namespace starling {

namespace {

// An answer that is under way comes within the first; who waits longer waits for somebody's work.
constexpr Time kSpin = std::chrono::milliseconds(2);
constexpr int kLooksAtATime = 16;  // the kernel costs more to ask than a source
constexpr Time kShortestNap = std::chrono::microseconds(20);
constexpr Time kLongestNap = std::chrono::microseconds(500);

}  // namespace

TcpLoop::TcpLoop() : start_(std::chrono::steady_clock::now()), timer_(io_) {}

Time TcpLoop::now() const { return std::chrono::steady_clock::now() - start_; }

Time TcpLoop::processor_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + Time(time.tv_nsec);
}

void TcpLoop::wait_for_event() {
  if (source_ == nullptr) {
    io_.run_one();
    return;
  }
  const Time begin = now();
  for (Time nap = kShortestNap; io_.poll_one() == 0;) {
    for (int i = 0; i < kLooksAtATime; ++i) {
      if (source_->look()) return;
      ::sched_yield();  // to whoever we may be waiting for
    }
    if (now() < begin + kSpin) continue;
    std::this_thread::sleep_for(nap);
    nap = std::min(nap * 2, kLongestNap);
  }
}

void TcpLoop::post(Sleep& sleep) {
  sleepers_.push_back(sleep);
  // A timer that goes off too early only looks again, so a later deadline costs nothing.
  if (sleep.until() < armed_until_) arm_timer();
}

void TcpLoop::arm_timer() {
  armed_until_ = Time::max();
  sleepers_.find([this](const Sleep& sleep) {
    armed_until_ = std::min(armed_until_, sleep.until());
    return false;
  });
  if (armed_until_ == Time::max()) return;
  timer_.expires_at(start_ + armed_until_);
  timer_.async_wait(Pooled([this](const asio::error_code& error) {
    if (!error) wake_sleepers();
  }));
}

void TcpLoop::wake_sleepers() {
  const Time time = now();
  while (Sleep* due = sleepers_.find([&](const Sleep& sleep) { return sleep.until() <= time; })) {
    due->over = true;
    ready(*due);  // which takes it out of the list
  }
  arm_timer();
}

}  // namespace starling
