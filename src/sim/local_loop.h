// LocalLoop: the world's loop as one rank of it sees it. Its clock may run fast or slow, and it may be
// stopped, as a process is by SIGSTOP: nothing of it goes on, while the world does, until it may.
#pragma once

#include <unordered_map>

#include "sim/sim_loop.h"

namespace starling {

class LocalLoop : public Loop {
 public:
  explicit LocalLoop(SimLoop& world) : world_(world) {}

  Time now() const override { return local(world_.now()); }
  // A rank that runs in a thread of its own waits there, and the world goes on.
  void drive(Running& running) override;
  void ready(Waiter& waiter) override;

  // Its clock is ahead by so many millionths of the time since the world began.
  void set_drift(int millionths) { rate_ = 1 + millionths * 1e-6; }

  // As often as it was stopped it must be told to go on.
  void stop() { ++stops_; }
  void go_on();
  bool is_stopped() const { return stops_ > 0; }
  // A new process runs there, whatever became of the old one.
  void start_anew() { stops_ = 0; }

 private:
  void post(Sleep& sleep) override;
  void withdraw(Sleep& sleep) override;
  void wait_for_event() override { world_.step(); }
  bool take_events() override;

  Time local(Time world) const;
  Time first_world_time_at(Time local_time) const;

  SimLoop& world_;
  double rate_ = 1;  // of its clock
  int stops_ = 0;
  List<Waiter> held_;
  std::unordered_map<Sleep*, SimLoop::EventId> sleeps_;
};

}  // namespace starling
