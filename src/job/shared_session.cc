#include "job/shared_session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "runtime/race.h"

namespace starling {

namespace {

constexpr Time kAtOnce{0};
// For who begins work to wait for it. The caretaker costs a short exchange's time when it wakes for
// nothing, so that it has more patience with those who do wait.
constexpr Time kLeastPatience = std::chrono::microseconds(150);
constexpr Time kMostPatience = std::chrono::milliseconds(5);
constexpr Time kLookAtTheDoor = std::chrono::milliseconds(20);

int make_alarm() {
  const int timer = ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  if (timer < 0) throw Error(fmt::format("no timer: {}", ::strerror(errno)));
  return timer;
}

}  // namespace

SharedSession::SharedSession(Job job, std::optional<Session::Elastic> elastic)
    : session_(std::move(job), std::move(elastic)),
      alarm_fd_(make_alarm()),
      patience_(kLeastPatience),
      caretaker_([this] { look_after(); }) {
  const Lock lock(mutex_);
  if (session_.generations() != nullptr) set_alarm(session_.loop().now() + kLookAtTheDoor);
}

SharedSession::~SharedSession() {
  {
    const Lock lock(mutex_);
    stopping_ = true;
    call_caretaker(kAtOnce);
  }
  session_.loop().call([] {});  // should the caretaker sleep in it
  caretaker_.join();
  ::close(alarm_fd_);
  // Whoever still holds one must not end it when there is no Comm any more.
  for (const auto& work : works_) work->running_.reset();
  works_.clear();
}

std::shared_ptr<SharedSession::Work> SharedSession::begin(Name name, MakeTask make_task,
                                                          Time timeout) {
  auto work = std::make_shared<Work>();
  Lock lock(mutex_);
  ++under_way_;
  if (driven_) {
    session_.loop().call([this, work, name, make = std::move(make_task), timeout] {
      start(work, name, make, timeout);
    });
    return work;
  }
  driven_ = true;
  lock.unlock();
  start(work, name, make_task, timeout);
  lock.lock();
  driven_ = false;
  if (under_way_ > 0 && waiting_ == 0) call_caretaker(patience_);
  if (waiting_ > 0) changed_.notify_all();
  return work;
}

// Only where this thread drives.
void SharedSession::start(const std::shared_ptr<Work>& work, Name name, const MakeTask& make_task,
                          Time timeout) {
  std::erase_if(works_, [](const auto& each) { return each->running_->done(); });
  works_.push_back(work);
  work->running_.emplace(watched(*work, in_time(name, timeout, make_task())));
}

// As within(), but that it says for whom it has waited.
Task<> SharedSession::in_time(Name name, Time timeout, Task<> task) {
  const Session::Exchange exchange(session_);
  Loop& loop = session_.loop();
  Signal signal;
  Running running(std::move(task), signal);
  if (!running.done()) {
    Running alarm(sleep_until(loop, loop.now() + timeout), signal);
    while (!running.done() && !alarm.done()) co_await signal;
  }
  if (!running.done()) {
    const std::vector<int> awaited =
        name.channel ? session_.comm().awaited(*name.channel) : std::vector<int>{};
    throw DeadlineExceeded(
        fmt::format(
            "{} did not finish within its timeout of {:.3g} s{}", name.text,
            std::chrono::duration<double>(timeout).count(),
            awaited.empty() ? "" : fmt::format(": it waits for rank {}", fmt::join(awaited, ", "))),
        "a worker may be stopped, far slower than the others, or doing something else");
  }
  running.rethrow_failure();
}

Task<> SharedSession::watched(Work& work, Task<> task) {
  try {
    co_await task;
  } catch (...) {
    work.error_ = std::current_exception();
  }
  Lock lock(mutex_);
  if (--under_way_ == 0) due_ = Time::max();
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
      due_ = kAtOnce;  // who is told need not wait, so whoever stops driving calls
      if (waiting_ == 0 && !driven_) call_caretaker(kAtOnce);
      return;
    }
  }
  on_end();
}

void SharedSession::give_up_work() {
  std::vector<std::function<void()>> told;
  for (const auto& work : works_) {
    if (work->done()) continue;
    work->running_.reset();
    const Lock lock(mutex_);
    work->error_ = std::make_exception_ptr(Error("its generation of the job is over"));
    work->done_ = true;
    if (--under_way_ == 0) due_ = Time::max();
    told.push_back(std::exchange(work->on_end_, {}));
  }
  works_.clear();
  for (const auto& on_end : told) {
    if (on_end) on_end();
  }
}

template <class Enough>
void SharedSession::drive(Lock& lock, const Enough& enough, std::optional<Time> deadline) {
  driven_ = true;
  due_ = Time::max();
  lock.unlock();
  {
    std::optional<Running> alarm;  // so that it is asked by then, whatever happens
    if (deadline) alarm.emplace(sleep_until(session_.loop(), *deadline));
    session_.loop().drive_until(enough);
  }
  lock.lock();
  driven_ = false;
}

bool SharedSession::wait(Work& work, std::optional<Time> timeout) {
  if (work.done()) return true;
  const Loop& clock = session_.loop();
  std::optional<Time> deadline;
  if (timeout) deadline = clock.now() + *timeout;
  const auto late = [&] { return deadline && clock.now() >= *deadline; };
  Lock lock(mutex_);
  check_not_held_here();
  ++waiting_;
  patience_ = std::min(2 * patience_, kMostPatience);
  while (!work.done() && !late()) {
    if (!driven_) {
      drive(
          lock, [&] { return work.done() || late(); }, deadline);
    } else if (deadline) {
      changed_.wait_for(lock, *deadline - clock.now());
    } else {
      changed_.wait(lock);
    }
  }
  --waiting_;
  if (waiting_ > 0) changed_.notify_all();
  if (waiting_ == 0 && under_way_ > 0 && !driven_) call_caretaker(patience_);
  return work.done();
}

std::shared_ptr<SharedSession::Work> SharedSession::run(Name name, MakeTask make_task, Time timeout,
                                                        std::optional<Time> patience) {
  Lock lock(mutex_);
  if (driven_) {
    lock.unlock();
    const auto work = begin(name, std::move(make_task), timeout);
    if (!wait(*work, patience)) return work;
    if (work->error()) std::rethrow_exception(work->error());
    return nullptr;
  }
  // As begin() and wait() would, but that nobody is told of what is over before they look.
  ++waiting_;
  ++under_way_;
  driven_ = true;
  lock.unlock();
  const auto work = std::make_shared<Work>();
  start(work, name, make_task, timeout);
  lock.lock();
  const Loop& clock = session_.loop();
  std::optional<Time> deadline;
  if (patience) deadline = clock.now() + *patience;
  drive(
      lock, [&] { return work->done() || (deadline && clock.now() >= *deadline); }, deadline);
  --waiting_;
  if (waiting_ > 0) changed_.notify_all();
  if (waiting_ == 0 && under_way_ > 0) call_caretaker(patience_);
  lock.unlock();
  if (!work->done()) return work;
  if (work->error()) std::rethrow_exception(work->error());
  return nullptr;
}

// Who waited here would wait for itself.
void SharedSession::check_not_held_here() const {
  if (holder_ != std::this_thread::get_id()) return;
  throw Error("this exchange is within another, such as a step", "do it before or after");
}

SharedSession::Hold::Hold(SharedSession& session) : session_(session) {
  Lock lock(session_.mutex_);
  session_.check_not_held_here();
  ++session_.waiting_;
  ++session_.wanted_;
  if (session_.driven_) session_.session_.loop().call([] {});  // wakes the caretaker
  session_.changed_.wait(lock, [&] { return !session_.driven_; });
  --session_.wanted_;
  --session_.waiting_;
  session_.driven_ = true;
  session_.holder_ = std::this_thread::get_id();
}

SharedSession::Hold::~Hold() {
  const Lock lock(session_.mutex_);
  session_.driven_ = false;
  session_.holder_ = {};
  if (session_.waiting_ > 0) session_.changed_.notify_all();
  if (session_.waiting_ == 0 && session_.under_way_ > 0)
    session_.call_caretaker(session_.patience_);
}

// Setting a timer to soon costs as much as the rest of a short exchange. So one that goes off early
// enough stays as it is: the caretaker then looks what is due.
void SharedSession::call_caretaker(Time in) {
  due_ = std::min(due_, session_.loop().now() + in);
  if (due_ < alarm_) set_alarm(due_);
}

void SharedSession::set_alarm(Time at) {
  alarm_ = at;
  const Time in = std::max(at - session_.loop().now(), Time(1));  // nothing would mean never
  const auto whole = std::chrono::floor<std::chrono::seconds>(in);
  itimerspec when{};
  when.it_value.tv_sec = whole.count();
  when.it_value.tv_nsec = (in - whole).count();
  if (session_.generations() != nullptr) when.it_interval.tv_nsec = kLookAtTheDoor.count();
  STARLING_CHECK(::timerfd_settime(alarm_fd_, 0, &when, nullptr) == 0,
                 "a timer that cannot be set");
}

void SharedSession::look_at_the_door(Lock& lock) {
  driven_ = true;
  lock.unlock();
  session_.loop().poll();
  lock.lock();
  driven_ = false;
  if (waiting_ > 0) changed_.notify_all();
}

// Whoever stops waiting or driving while there is work left calls, so what is seen here can wait.
void SharedSession::look_after() {
  Lock lock(mutex_);
  while (!stopping_) {
    const bool may_drive = !driven_ && waiting_ == 0 && under_way_ > 0;
    if (may_drive && due_ <= session_.loop().now()) {
      patience_ = kLeastPatience;
      drive(lock, [&] {
        const Lock looking(mutex_);
        return stopping_ || under_way_ == 0 || wanted_ > 0;
      });
      if (waiting_ > 0) changed_.notify_all();
      continue;
    }
    if (may_drive) set_alarm(due_);
    lock.unlock();
    std::uint64_t calls = 0;
    [[maybe_unused]] const ssize_t heard = ::read(alarm_fd_, &calls, sizeof calls);
    lock.lock();
    alarm_ = Time::max();
    if (!driven_ && session_.generations() != nullptr) look_at_the_door(lock);
  }
}

}  // namespace starling
