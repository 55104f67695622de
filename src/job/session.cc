#include "job/session.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "job/mpi_join.h"
#include "runtime/patience.h"
#include "runtime/race.h"

namespace starling {

namespace {

Job with_log(Job job) {
  start_log(fmt::format("rank {}", job.rank),
            spdlog::level::from_str(log_level_from_environment()));
  return job;
}

}  // namespace

Session::Session(Job job, std::optional<Elastic> elastic)
    : job_(with_log(std::move(job))),
      board_(job_.board, job_.rank),
      kernel_(job_),
      asked_to_stop_(loop_) {
  if (job_.transport == Transport::mpi) {
    mpi_ = join_by_mpi(loop_, job_);
  } else if (elastic) {
    generations_.emplace(host_, job_, elastic->rules, elastic->role);
    loop_.run(generations_->begin(inherited_listener(host_, job_)));
  } else {
    member_.emplace(join(host_, job_));
  }
  entered();
}

void Session::entered() {
  if (generations_) {
    job_.rank = generations_->rank();
    job_.size = comm().size();
  }
  timeline_.emplace(job_, comm(), generations_ ? generations_->roster().generation : 1);
  posted_before_ = comm().posted();
  keeping_board_.emplace(keep_board());
}

void Session::end_generation() {
  if (!generations_->has_comm()) return;
  books_ = comm().ledger();
  keeping_board_.reset();
  timeline_.reset();
  works_.clear();
  generations_->leave_comm();
}

namespace {

constexpr Time kNowAndThen = std::chrono::milliseconds(100);

Task<> enter_next(Generations& generations, bool& is_in) {
  Task<bool> entering = generations.next();
  is_in = co_await entering;
}
Task<> now_and_then(Clock& clock, const std::function<void()>& action) {
  while (true) {
    action();
    co_await sleep_until(clock, clock.now() + kNowAndThen);
  }
}

}  // namespace

bool Session::next_generation(const std::function<void()>& meanwhile) {
  end_generation();
  bool is_in = false;
  loop_.run(race(enter_next(*generations_, is_in), now_and_then(loop_, meanwhile)));
  if (!is_in) return false;
  comm().go_on_from(*books_);
  entered();
  return true;
}

bool Session::can_go_on_after(const Error& error) {
  return generations_ && generations_->can_go_on_after(error);
}

Session::~Session() = default;

std::vector<int> Session::sockets() {
  std::vector<int> descriptors = host_.listening();
  if (generations_ && !generations_->has_comm()) return descriptors;
  for (int descriptor : comm().descriptors()) descriptors.push_back(descriptor);
  return descriptors;
}

// What it awaits all the time (the next letter, another's end) was posted before.
Task<> Session::keep_board() {
  { const Exchange joining(*this); }  // from now on it computes
  while (true) {
    co_await sleep_until(loop_, loop_.now() + std::chrono::milliseconds(500));
    const Ledger& ledger = comm().ledger();
    const std::uint64_t moved =
        ledger.total(Direction::sent).wire + ledger.total(Direction::received).wire;
    board_.refresh(moved, [this](BoardEntry& entry) {
      comm().each_wait(posted_before_, [&](int peer, const char* operation, bool sends) {
        entry.add_wait(peer, operation, sends);
      });
    });
  }
}

void Session::run(const char* what, Task<> task) {
  const Exchange exchange(*this);
  loop_.run(within(loop_, loop_.now() + job_.timeout, what, std::move(task)));
}

void Session::run_patiently(const char* what, Task<> task) {
  const Exchange exchange(*this);
  loop_.run(with_patience(comm(), job_.timeout, what, std::move(task)));
}

std::future<void> Session::submit(const char* what, std::function<Task<>()> make_task) {
  std::promise<void> promise;
  std::future<void> future = promise.get_future();
  loop_.call([this, what, make = std::move(make_task), done = std::move(promise)]() mutable {
    begin(what, make, std::move(done));
  });
  return future;
}

void Session::begin(const char* what, const std::function<Task<>()>& make_task,
                    std::promise<void> promise) {
  works_.remove_if([](const Work& work) { return work.running->done(); });
  Work& work = works_.emplace_back(std::move(promise));
  work.running.emplace(
      fulfil(within(loop_, loop_.now() + job_.timeout, what, make_task()), work.promise));
}

Task<> Session::fulfil(Task<> task, std::promise<void>& promise) {
  try {
    co_await task;
    promise.set_value();
  } catch (...) {
    promise.set_exception(std::current_exception());
  }
}

void Session::serve(std::stop_token stop) {
  const std::stop_callback wake(stop, [this] { loop_.call([this] { asked_to_stop_.ring(); }); });
  loop_.run(until(stop));
  works_.clear();
}

Task<> Session::until(std::stop_token stop) {
  while (!stop.stop_requested()) co_await asked_to_stop_.rung();
}

}  // namespace starling
