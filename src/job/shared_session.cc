#include "job/shared_session.h"

#include <utility>

#include "base/check.h"
#include "runtime/race.h"

namespace starling {

SharedSession::SharedSession(Job job)
    : session_(std::move(job)), caretaker_([this] { look_after(); }) {}

SharedSession::~SharedSession() {
  {
    const Lock lock(mutex_);
    stopping_ = true;
  }
  abandoned_.notify_all();
  session_.loop().call([] {});  // should the caretaker sleep in it
  caretaker_.join();
  works_.clear();
}

std::shared_ptr<SharedSession::Work> SharedSession::begin(const char* what, MakeTask make_task,
                                                          Time timeout) {
  auto work = std::make_shared<Work>();
  Lock lock(mutex_);
  ++under_way_;
  if (driven_) {
    session_.loop().call([this, work, what, make = std::move(make_task), timeout] {
      start(work, what, make, timeout);
    });
    return work;
  }
  driven_ = true;
  lock.unlock();
  start(work, what, make_task, timeout);
  lock.lock();
  driven_ = false;
  if (under_way_ > 0 && waiting_ == 0) abandoned_.notify_one();
  if (waiting_ > 0) changed_.notify_all();
  return work;
}

// Only where this thread drives.
void SharedSession::start(const std::shared_ptr<Work>& work, const char* what,
                          const MakeTask& make_task, Time timeout) {
  std::erase_if(works_, [](const auto& each) { return each->running_->done(); });
  works_.push_back(work);
  Loop& loop = session_.loop();
  work->running_.emplace(watched(*work, within(loop, loop.now() + timeout, what, make_task())));
}

Task<> SharedSession::watched(Work& work, Task<> task) {
  try {
    co_await task;
  } catch (...) {
    work.error_ = std::current_exception();
  }
  Lock lock(mutex_);
  --under_way_;
  work.done_ = true;
  if (waiting_ > 0) changed_.notify_all();
  const auto on_end = std::exchange(work.on_end_, {});
  lock.unlock();
  if (on_end) on_end();
}

void SharedSession::then(Work& work, std::function<void()> on_end) {
  {
    const Lock lock(mutex_);
    STARLING_CHECK(!work.on_end_, "somebody else is told already when this work ends");
    if (!work.done()) {
      work.on_end_ = std::move(on_end);
      return;
    }
  }
  on_end();
}

template <class Enough>
void SharedSession::drive(Lock& lock, const Enough& enough) {
  driven_ = true;
  lock.unlock();
  session_.loop().drive_until(enough);
  lock.lock();
  driven_ = false;
}

bool SharedSession::wait(Work& work, std::optional<Time> timeout) {
  if (work.done()) return true;
  const Loop& clock = session_.loop();
  const Time deadline = timeout ? clock.now() + *timeout : Time::max();
  const auto late = [&] { return timeout && clock.now() >= deadline; };
  Lock lock(mutex_);
  ++waiting_;
  while (!work.done() && !late()) {
    if (!driven_) {
      // A timer wakes the loop, or nothing would.
      std::optional<Running> alarm;
      if (timeout) alarm.emplace(sleep_until(session_.loop(), deadline));
      drive(lock, [&] { return work.done() || late(); });
    } else if (timeout) {
      changed_.wait_for(lock, deadline - clock.now());
    } else {
      changed_.wait(lock);
    }
  }
  --waiting_;
  if (waiting_ > 0) changed_.notify_all();
  if (waiting_ == 0 && under_way_ > 0 && !driven_) abandoned_.notify_one();
  return work.done();
}

void SharedSession::run(const char* what, MakeTask make_task, Time timeout) {
  Lock lock(mutex_);
  if (driven_) {
    lock.unlock();
    const auto work = begin(what, std::move(make_task), timeout);
    wait(*work);
    if (work->error()) std::rethrow_exception(work->error());
    return;
  }
  // As begin() and wait() would, but that nobody is told of what is over before they look.
  ++waiting_;
  ++under_way_;
  driven_ = true;
  lock.unlock();
  const auto work = std::make_shared<Work>();
  start(work, what, make_task, timeout);
  lock.lock();
  drive(lock, [&] { return work->done(); });
  --waiting_;
  if (waiting_ > 0) changed_.notify_all();
  if (waiting_ == 0 && under_way_ > 0) abandoned_.notify_one();
  lock.unlock();
  if (work->error()) std::rethrow_exception(work->error());
}

SharedSession::Hold::Hold(SharedSession& session) : session_(session) {
  Lock lock(session_.mutex_);
  ++session_.waiting_;
  session_.changed_.wait(lock, [&] { return !session_.driven_; });
  --session_.waiting_;
  session_.driven_ = true;
}

SharedSession::Hold::~Hold() {
  const Lock lock(session_.mutex_);
  session_.driven_ = false;
  if (session_.waiting_ > 0) session_.changed_.notify_all();
  if (session_.waiting_ == 0 && session_.under_way_ > 0) session_.abandoned_.notify_one();
}

void SharedSession::look_after() {
  Lock lock(mutex_);
  while (!stopping_) {
    if (driven_ || waiting_ > 0 || under_way_ == 0) {
      abandoned_.wait(lock);
      continue;
    }
    drive(lock, [&] {
      const Lock looking(mutex_);
      return stopping_ || under_way_ == 0;
    });
    if (waiting_ > 0) changed_.notify_all();
  }
}

}  // namespace starling
