// Session: a job joined. Whoever takes part in one opens a session: the trainer, a server, a benchmark,
// a loop of the user's own.
//
//   Session session(job_from_environment());
//   session.run("a barrier", barrier(session.comm(), kChannel));
//
// A session belongs to the thread that opens it, and that thread drives its loop: in run(), or in
// serve() for work that other threads submit. A waiting thread sleeps in the kernel; work that is
// submitted wakes it.
#pragma once

#include <functional>
#include <future>
#include <list>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "job/job.h"
#include "job/join.h"
#include "job/timeline_file.h"
#include "job/traffic.h"
#include "net/tcp_host.h"

namespace starling {

class Session {
 public:
  // Starts the log and joins; throws Error as join() does.
  explicit Session(Job job);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const Job& job() const { return job_; }
  TcpLoop& loop() { return loop_; }
  Mesh& comm() { return member_.comm(); }
  // The descriptors of its sockets. A forked child has them, too: unless it closes them, the others
  // do not see when this process ends.
  std::vector<int> sockets();
  // Since before joining.
  const KernelCount& kernel() const { return kernel_; }

  // Drives a task to its end, for no longer than the job's timeout; `what` names it in the error.
  void run(const char* what, Task<> task);

  // From any thread: makes the task and runs it in the session's thread, under the same deadline, at
  // the same time as others that were submitted. The future has its error, if it fails.
  std::future<void> submit(const char* what, std::function<Task<>()> make_task);
  // Does what is submitted until somebody asks to stop. What is not done then is given up.
  void serve(std::stop_token stop);

 private:
  struct Work {
    std::promise<void> promise;
    std::optional<Running> running;
  };
  void begin(const char* what, const std::function<Task<>()>& make_task,
             std::promise<void> promise);
  static Task<> fulfil(Task<> task, std::promise<void>& promise);
  Task<> until(std::stop_token stop);

  Job job_;
  KernelCount kernel_;
  TcpLoop loop_;
  TcpHost host_{loop_};
  Membership member_;
  TimelineFile timeline_;
  Bell asked_to_stop_;
  std::list<Work> works_;  // that are under way, and those that have just ended
};

}  // namespace starling
