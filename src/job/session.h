// Session: a job joined. Whoever takes part in one opens a session: the trainer, a server, a benchmark,
// a loop of the user's own.
//
//   Session session(job_from_environment());
//   session.run("a barrier", barrier(session.comm(), kChannel));
//
// A session belongs to the thread that opens it, and that thread drives its loop: in run(), or in
// serve() for work that other threads submit. A waiting thread sleeps in the kernel; work that is
// submitted wakes it.
//
// In an elastic job workers come and go: then a session goes from one generation to the next, each with
// a Comm of its own (job/generations.h).
#pragma once

#include <functional>
#include <future>
#include <list>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/error.h"
#include "job/board.h"
#include "job/generations.h"
#include "job/job.h"
#include "job/join.h"
#include "job/timeline_file.h"
#include "job/traffic.h"
#include "net/tcp_host.h"

namespace starling {

class Session {
 public:
  struct Elastic {
    Council::Rules rules;
    Member::Role role = Member::Role::worker;
  };

  // Starts the log and joins; throws Error as join() does.
  explicit Session(Job job, std::optional<Elastic> elastic = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const Job& job() const { return job_; }
  TcpLoop& loop() { return loop_; }
  ProcessComm& comm() {
    if (mpi_) return *mpi_;
    return generations_ ? generations_->comm() : member_->comm();
  }
  // The descriptors of its sockets. A forked child has them, too: unless it closes them, the others
  // do not see when this process ends.
  std::vector<int> sockets();
  // What it does, for those who watch.
  Board& board() { return board_; }
  // For as long as this is kept, it is in an exchange.
  class Exchange {
   public:
    explicit Exchange(Session& session) : session_(session) { session_.board_.begin_exchange(); }
    ~Exchange() {
      if (session_.board_.end_exchange()) session_.posted_before_ = session_.comm().posted();
    }
    Exchange(const Exchange&) = delete;
    Exchange& operator=(const Exchange&) = delete;

   private:
    Session& session_;
  };

  // Since before joining.
  const KernelCount& kernel() const { return kernel_; }

  // Where workers come and go; nothing elsewhere.
  Generations* generations() { return generations_ ? &*generations_ : nullptr; }
  // Whether an error is one that a later generation may do without, if there can be one.
  bool can_go_on_after(const Error& error);
  // Leaves the Comm, of which nothing may be in use any more.
  void end_generation();
  // The same, if that has not been done, and is back with that of a later
  // generation, another rank perhaps, and its books. False if the others go on without us, as we have
  // asked for. Until then `meanwhile` is called now and then; what it throws ends the wait.
  bool next_generation(const std::function<void()>& meanwhile = [] {});

  // Drives a task to its end, for no longer than the job's timeout; `what` names it in the error.
  void run(const char* what, Task<> task);
  // The same for what may be of any size, like a model: for as long as anything moves.
  void run_patiently(const char* what, Task<> task);

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
  void entered();
  Task<> keep_board();

  Job job_;
  Board board_;
  KernelCount kernel_;
  TcpLoop loop_;
  TcpHost host_{loop_, job_.network};
  std::optional<Membership> member_;  // one of the three
  std::unique_ptr<ProcessComm> mpi_;
  std::optional<Generations> generations_;
  std::optional<Ledger> books_;  // of all generations, between two of them
  std::optional<TimelineFile> timeline_;
  Bell asked_to_stop_;
  std::list<Work> works_;            // that are under way, and those that have just ended
  std::uint64_t posted_before_ = 0;  // when it last began to compute
  std::optional<Running> keeping_board_;
};

}  // namespace starling
