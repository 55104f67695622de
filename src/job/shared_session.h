// SharedSession: a session for programs whose threads come as they please, such as Python's.
//
// Nobody owns the loop. Who waits for work drives it, unless somebody does already: a hand-over
// between threads costs a slice of the scheduler's, which is more than a short exchange takes. When
// nobody waits and there is work under way, a thread of the session's own drives, so that it goes on
// while the program computes. When there is none, all sleep.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "job/session.h"

namespace starling {

class SharedSession {
 public:
  // What was begun. Any thread may hold it, for as long as it likes.
  class Work {
   public:
    bool done() const { return done_; }
    // Of work that is done.
    std::exception_ptr error() const { return error_; }

   private:
    friend class SharedSession;
    std::function<void()> on_end_;
    std::optional<Running> running_;  // only the thread that drives looks at it
    std::exception_ptr error_;
    std::atomic<bool> done_ = false;
  };
  using MakeTask = std::function<Task<>()>;

  // For who drives the loop by itself: nobody else does while it lives. What others begin meanwhile is
  // under way in whatever drives next.
  class Hold {
   public:
    explicit Hold(SharedSession& session);
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    SharedSession& session_;
  };

  // Joins; throws Error as Session does.
  explicit SharedSession(Job job);
  // Says goodbye. What is under way is given up.
  ~SharedSession();

  Session& session() { return session_; }
  Comm& comm() { return session_.comm(); }

  // Begins work under a deadline; `what` names it in the error and must outlive it.
  std::shared_ptr<Work> begin(const char* what, MakeTask make_task, Time timeout);
  // Calls that once the work is done: in the thread that drives, or here and now if it is already.
  // It may begin work, and must not wait for any.
  void then(Work& work, std::function<void()> on_end);
  // Until it is done, or for no longer than that; false if it is not. Throws nothing of its own:
  // error() has what it failed with.
  bool wait(Work& work, std::optional<Time> timeout = {});
  // Both, for work that nobody else looks at. Throws its error.
  void run(const char* what, MakeTask make_task, Time timeout);

 private:
  using Lock = std::unique_lock<std::mutex>;

  void start(const std::shared_ptr<Work>& work, const char* what, const MakeTask& make_task,
             Time timeout);
  Task<> watched(Work& work, Task<> task);
  template <class Enough>
  void drive(Lock& lock, const Enough& enough);
  void look_after();

  Session session_;
  std::mutex mutex_;
  std::condition_variable changed_;    // some work is done, or nobody drives
  std::condition_variable abandoned_;  // there is work that nobody waits for
  bool driven_ = false;
  int waiting_ = 0;
  bool stopping_ = false;
  int under_way_ = 0;
  std::list<std::shared_ptr<Work>> works_;  // of the thread that drives
  std::thread caretaker_;
};

}  // namespace starling
