// Switch: hosts in one process, in virtual time, with links between them that are as bad as the seed
// and the weather will have it. What joining and the mesh run on in the simulator.
//
// Of the faults (faults.h) it has all that befall networks, clocks and whole hosts: partitions, delays,
// slow links, drifts and pauses. Those of processes are the Fleet's (fleet.h).
//
// A run depends on its inputs only: two of the same seed leave the same trace.
#pragma once

#include <deque>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "runtime/bell.h"
#include "runtime/host.h"
#include "sim/faults.h"
#include "sim/local_loop.h"
#include "sim/sim_link.h"

namespace starling {

// What becomes of bytes on their way, when nothing is cut.
struct Weather {
  Time least_delay{0}, most_delay{0};
  double short_share = 0;  // of all transfers that move fewer bytes than they could, down to one
  std::size_t capacity_bytes = 256 * 1024;  // of a link, in each direction
};
std::ostream& operator<<(std::ostream& out, const Weather& weather);

class SimHost;

class Switch {
 public:
  Switch(SimLoop& loop, int hosts, std::uint64_t seed, Weather weather = {}, Faults faults = {});
  ~Switch();

  SimLoop& loop() { return loop_; }
  int size() const { return static_cast<int>(hosts_.size()); }
  SimHost& host(int number) { return *hosts_[static_cast<std::size_t>(number)]; }

  // Nothing arrives that way, neither bytes nor calls, until it is mended.
  void cut(int from, int to);
  void mend(int from, int to);
  // All that runs there ends: its links are closed without a word, and calls are refused.
  void kill(int host);
  // Nobody hears of it any more.
  void vanish(int host);
  // Nothing goes on there but its kernel: calls get through, and bytes for which there is room.
  void stop(int host);
  void go_on(int host);

  // Of all that has happened.
  std::uint64_t trace() const { return trace_; }

 private:
  friend class Wire;
  friend class SimHost;

  struct Event {
    char kind;
    int wire, end;
    std::uint64_t bytes;
  };
  void note(const Event& event);
  Time draw_delay(int from, int to);
  Time transfer_time(int from, int to, std::size_t bytes) const;
  bool is_stopped(int host) const;
  void plan_faults();
  bool is_to_be_cut(int from, int to) const;
  std::size_t shorten(std::size_t bytes);
  bool is_cut(int from, int to) const { return cuts_.contains({from, to}); }
  bool is_cut_between(int a, int b) const { return is_cut(a, b) || is_cut(b, a); }
  std::shared_ptr<Wire> connect(int from, int to);
  template <class Action>
  void for_each_wire(const Action& action);

  SimLoop& loop_;
  Random random_;
  Weather weather_;
  std::uint64_t trace_ = 0;
  Faults faults_;
  std::map<std::pair<int, int>, Time> cuts_;  // from, to; since when
  std::vector<std::weak_ptr<Wire>> wires_;
  std::vector<std::unique_ptr<SimHost>> hosts_;
};

class SimHost : public Host {
 public:
  SimHost(Switch& hub, int number, std::uint64_t seed)
      : hub_(hub), number_(number), random_{seed}, loop_(hub.loop()), leave_(loop_) {}

  LocalLoop& loop() override { return loop_; }
  // Hosts are called "host 0:29400" and so on.
  Address find(const std::string& name) override;
  std::unique_ptr<Listener> listen(const Address& place, std::uint32_t port) override;
  Task<Answer> call(Address to) override;
  std::string describe_way(const Address& to) override;
  void draw(Bytes bytes) override;

  int number() const { return number_; }
  // How many processes there have been before the one that runs.
  int life() const { return life_; }
  // Until its process is told to leave.
  Task<> told_to_leave();

  // Tells it.
  void tell_to_leave();
  // What comes is a new process.
  void start_anew();

 private:
  friend class Switch;
  class Door;

  Address address(std::uint32_t port) const;

  Switch& hub_;
  int number_;
  Random random_;
  LocalLoop loop_;
  int life_ = -1;
  bool is_to_leave_ = false;
  Bell leave_;
  std::uint32_t last_port_ = 40'000;
  std::map<std::uint32_t, Door*> doors_;  // by port
};

}  // namespace starling
