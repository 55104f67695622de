// Cluster: n ranks in one process, in virtual time, on a modelled network. The programs that run on
// it are the very coroutines that run on sockets.
//
// It is one generation: who has ended, by a crash or because it was told to leave, does not come back.
// A Fleet (fleet.h) has faults.restarts.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/comm.h"
#include "sim/faults.h"
#include "sim/local_loop.h"
#include "sim/network.h"

namespace starling {

class SimComm;
class Stream;

class Cluster {
 public:
  using Program = std::function<Task<>(Comm&)>;

  // Sees every message as it arrives, with the memory that it was sent from.
  using Observer = std::function<void(int from, int to, ConstBytes sent)>;

  explicit Cluster(int size, Network network = {}, Faults faults = {});
  ~Cluster();

  // Starts the program on every rank and drives the world until all are done; who is done waits for
  // the next run. A rank whose program ends by an exception is lost to the others, and to later
  // runs. Throws the error of the lowest rank that failed.
  void run(const Program& program);
  // The same, but returns each rank's error; nullptr where a rank did well or was crashed on
  // purpose.
  std::vector<std::exception_ptr> try_run(const Program& program) { return drive(program, false); }
  // The same for programs that are their ranks' whole lives: who is done says goodbye and leaves.
  std::vector<std::exception_ptr> live(const Program& program) { return drive(program, true); }

  // What goes wrong from the next run on.
  Faults& faults() { return faults_; }
  void crash(int rank, Time time) { faults_.crashes.push_back({rank, time}); }
  void observe(Observer observer) { observer_ = std::move(observer); }

  int size() const { return static_cast<int>(comms_.size()); }
  Comm& comm(int rank);
  SimLoop& loop() { return loop_; }

 private:
  friend class SimComm;
  friend class Stream;
  struct Passage {
    Time begins, leaves, arrives;  // its first byte, its last one, and that at the other end
  };
  // Takes the next free time of both ports for so many bytes.
  Passage pass(int from, int to, std::uint64_t wire_bytes);
  // Does that when a word from one has come to the other.
  void tell(int from, int to, std::function<void()> action) {
    loop_.at(loop_.now() + network_.cable(from, to).latency, std::move(action));
  }
  std::uint64_t next_number() { return messages_++; }
  void show(int from, int to, ConstBytes source) const {
    if (observer_) observer_(from, to, source);
  }
  SimComm& sim_comm(int rank) { return *comms_[static_cast<std::size_t>(rank)]; }

  struct Run;
  std::vector<std::exception_ptr> drive(const Program& program, bool whole_life);
  Task<> live_through(SimComm& comm, Task<> program, bool whole_life);
  Task<> until_done(Run& run);
  void plan_faults(Run& run);
  // By which a program ends early: to fail, or to leave.
  struct Order {
    Time at;
    bool to_fail;
  };
  std::optional<Order> next_order(int rank) const;
  static Task<> follow(Order order, Comm& comm);
  // Does something to all connections from one side to the other.
  void across(const Faults::Partition& partition, void (Stream::*action)());
  void detect(const Faults::Partition& partition);
  // The rank is no more; the others see that after the latencies of their links.
  void end(SimComm& comm, std::optional<int> culprit);

  SimLoop loop_;
  Network network_;
  Faults faults_;
  Observer observer_;
  std::uint64_t messages_ = 0;  // that have been posted
  std::vector<Time> egress_free_, ingress_free_;
  std::vector<std::unique_ptr<LocalLoop>> loops_;
  std::vector<std::unique_ptr<SimComm>> comms_;
};

}  // namespace starling
