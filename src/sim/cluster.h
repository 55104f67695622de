// Cluster: n ranks in one process, in virtual time, on a modelled network. The programs that run on
// it are the very coroutines that run on sockets.
#pragma once

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "runtime/comm.h"
#include "sim/network.h"
#include "sim/sim_loop.h"

namespace starling {

class SimComm;

class Cluster {
 public:
  using Program = std::function<Task<>(Comm&)>;

  // Sees every message as it arrives, with the memory that it was sent from.
  using Observer = std::function<void(int from, int to, ConstBytes sent)>;

  explicit Cluster(int size, Network network = {});
  ~Cluster();

  // Starts the program on every rank and drives the world until all are done. Throws the error of
  // the lowest rank that failed.
  void run(const Program& program);
  // The same, but returns each rank's error; nullptr where a rank did well or was crashed on
  // purpose.
  std::vector<std::exception_ptr> try_run(const Program& program);

  // The fault "crash": at that time the rank stops in the middle of what it does; the others notice
  // after the latency of their link to it.
  void crash(int rank, Time time) { crashes_[rank] = time; }
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
  std::uint64_t next_number() { return messages_++; }
  void show(int from, int to, ConstBytes source) const {
    if (observer_) observer_(from, to, source);
  }
  SimComm& sim_comm(int rank) { return *comms_[static_cast<std::size_t>(rank)]; }
  Task<> until_done(std::vector<std::unique_ptr<Running>>& ranks, Signal& signal);

  SimLoop loop_;
  Network network_;
  Observer observer_;
  std::map<int, Time> crashes_;
  std::uint64_t messages_ = 0;  // that have been posted
  std::vector<Time> egress_free_, ingress_free_;
  std::vector<std::unique_ptr<SimComm>> comms_;
};

}  // namespace starling
