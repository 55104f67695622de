// Processes on simulated hosts (sim/switch.h) that join a job, end in any way, are started again, and are
// cut off from one another, as a plan says. Membership and all below it are the real ones.
#pragma once

#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "job/generations.h"
#include "plan/flock_plan.h"
#include "runtime/running.h"
#include "sim/switch.h"

namespace starling {

class SimulatedFlock {
 public:
  // What a process does from its first generation on.
  using Work = std::function<Task<>(int host, Generations& job)>;
  using Witness = std::function<void(const std::string& event)>;

  // Behind the plan's hosts stand those of servers, if there are any.
  SimulatedFlock(FlockPlan plan, int servers, std::uint64_t seed, Council::Rules rules, Work work,
                 Witness witness = {});

  // Lets all happen, until that is over.
  void run(Task<> until);

  SimLoop& loop() { return loop_; }
  int hosts() const { return hosts_; }
  bool serves(int host) const { return host >= plan_.hosts; }
  // It was a member, has neither left nor ended, and was not killed.
  bool is_member(int host) const;
  // It is at something, be it in vain.
  bool is_up(int host) const;

  void tell(const std::string& event);
  // All of it: plan, events, and every byte that was sent.
  std::string story() const;

 private:
  struct Life {
    std::unique_ptr<Generations> job;
    std::unique_ptr<Running> running;
    bool was_member = false;
    bool ends = false;  // it was killed, has left or is done
  };
  Life& life(int host) { return lives_[static_cast<std::size_t>(host)]; }
  const Life& life(int host) const { return lives_[static_cast<std::size_t>(host)]; }

  void start(int host, const std::string& guest_of);
  void kill(int host);
  Task<> live(int host);
  Task<> fail_when_told(int host);
  std::string doors() const;
  void plan_faults();

  FlockPlan plan_;
  int servers_, hosts_;
  Council::Rules rules_;
  Work work_;
  Witness witness_;
  SimLoop loop_;
  Switch hub_;
  std::vector<Life> lives_;
  std::ostringstream log_;
};

}  // namespace starling
