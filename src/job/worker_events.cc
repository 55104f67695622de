#include "job/worker_events.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace starling {

void report_event(const Job& job, const nlohmann::json& event) {
  if (job.events_fd < 0) return;
  // A launcher that is gone takes us with it anyway, so a failed write needs no answer.
  const std::string line =
      event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  // A checkpoint is told of by the thread that has written it.
  static std::mutex one_line_at_a_time;
  const std::lock_guard lock(one_line_at_a_time);
  for (std::size_t done = 0; done < line.size();) {
    const ssize_t written = ::write(job.events_fd, line.data() + done, line.size() - done);
    if (written <= 0) return;
    done += static_cast<std::size_t>(written);
  }
}

void report_error(const Job& job, const std::exception& error) {
  if (job.events_fd < 0) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return;
  }
  report_event(job, {{"event", "error"},
                     {"message", error.what()},
                     {"peer_lost", dynamic_cast<const PeerLost*>(&error) != nullptr},
                     {"cut_off", dynamic_cast<const CutOff*>(&error) != nullptr}});
}

namespace {

// Of this process: whoever handles std::terminate gets no arguments.
Job uncaught_job;
std::terminate_handler terminate_before = nullptr;

[[noreturn]] void report_and_terminate() {
  try {
    if (const std::exception_ptr error = std::current_exception()) std::rethrow_exception(error);
  } catch (const std::exception& error) {
    report_error(uncaught_job, error);
  } catch (...) {
    report_error(uncaught_job, Error("it threw something that is no std::exception"));
  }
  terminate_before();
  std::abort();
}

}  // namespace

void report_uncaught(const Job& job) {
  if (job.events_fd < 0) return;  // the C++ library says it itself
  uncaught_job = job;
  if (terminate_before == nullptr) terminate_before = std::set_terminate(report_and_terminate);
}

}  // namespace starling
