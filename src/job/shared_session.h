// SharedSession: a session for programs whose threads come as they please, such as Python's.
//
// Nobody owns the loop. Who waits for work drives it, unless somebody does already: a hand-over
// between threads costs a slice of the scheduler's, which is more than a short exchange takes. When
// nobody waits and there is work under way, a thread of the session's own, the caretaker, drives, so
// that it goes on while the program computes. When there is none, all sleep. As most who begin work
// wait for it at once, the caretaker looks a moment later, unless it is known that nobody will; and later
// still where they always did.
//
// In an elastic job others call at any time, about the roster. So that they are answered while the
// program computes, the caretaker looks at the door now and then.
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
  // What work is called in errors, which must outlive it, and the channel of the Comm on which it
  // waits for others, if it has one.
  struct Name {
    Name(const char* said) : text(said) {}
    Name(Channel in_comm) : text(in_comm.operation), channel(in_comm.id) {}
    const char* text;
    std::optional<std::uint32_t> channel;
  };

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
  explicit SharedSession(Job job, std::optional<Session::Elastic> elastic = {});
  // Says goodbye. What is under way is given up.
  ~SharedSession();

  Session& session() { return session_; }
  Comm& comm() { return session_.comm(); }

  // Begins work under a deadline.
  std::shared_ptr<Work> begin(Name name, MakeTask make_task, Time timeout);
  // Calls that once the work is done: in the thread that drives, or here and now if it is already.
  // It may begin work, and must not wait for any.
  void then(Work& work, std::function<void()> on_end);
  // Until it is done, or for no longer than that; false if it is not. Throws nothing of its own:
  // error() has what it failed with.
  bool wait(Work& work, std::optional<Time> timeout = {});
  // In an elastic job, while this thread holds the session: what is under way fails, as its generation
  // is over.
  void give_up_work();
  // Both, for work that nobody else looks at. Throws its error. Returns the work if it is not done
  // after so much patience, else nothing.
  std::shared_ptr<Work> run(Name name, MakeTask make_task, Time timeout,
                            std::optional<Time> patience = {});

 private:
  using Lock = std::unique_lock<std::mutex>;

  void start(const std::shared_ptr<Work>& work, Name name, const MakeTask& make_task, Time timeout);
  Task<> watched(Work& work, Task<> task);
  Task<> in_time(Name name, Time timeout, Task<> task);
  void check_not_held_here() const;
  template <class Enough>
  void drive(Lock& lock, const Enough& enough, std::optional<Time> deadline = {});
  void look_after();
  void look_at_the_door(Lock& lock);
  void call_caretaker(Time in);
  void set_alarm(Time at);

  Session session_;
  std::mutex mutex_;
  std::condition_variable changed_;  // some work is done, or nobody drives
  int alarm_fd_;                     // a timer, which calls the caretaker
  Time alarm_ = Time::max();         // when it goes off
  Time due_ = Time::max();           // from when on the caretaker drives, if nobody else does
  Time patience_;                    // with who has begun work
  bool driven_ = false;
  int waiting_ = 0;
  bool stopping_ = false;
  int wanted_ = 0;          // by who would hold it
  std::thread::id holder_;  // who does
  int under_way_ = 0;
  std::list<std::shared_ptr<Work>> works_;  // of the thread that drives
  std::thread caretaker_;
};

}  // namespace starling
