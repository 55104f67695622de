#include "job/session.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "runtime/race.h"

namespace starling {

namespace {

Job with_log(Job job) {
  start_log(fmt::format("rank {}", job.rank),
            spdlog::level::from_str(log_level_from_environment()));
  return job;
}

}  // namespace

Session::Session(Job job)
    : job_(with_log(std::move(job))),
      kernel_(job_),
      member_(join(host_, job_)),
      timeline_(job_, comm()),
      asked_to_stop_(loop_) {}

Session::~Session() = default;

std::vector<int> Session::sockets() {
  std::vector<int> descriptors = {host_.listening_fd()};
  for (int peer = 0; peer < comm().size(); ++peer) {
    if (peer == comm().rank()) continue;
    descriptors.push_back(comm().link(peer).descriptor());
  }
  return descriptors;
}

void Session::run(const char* what, Task<> task) {
  loop_.run(within(loop_, loop_.now() + job_.timeout, what, std::move(task)));
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
