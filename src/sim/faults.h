// What goes wrong in a simulated world, and when: all in one struct, so that a test that fails can
// print it with its seed and be run again.
//
// | fault       | what it does                                                                       |
// |-------------|------------------------------------------------------------------------------------|
// | crash       | the process ends in the middle of what it does; its kernel hangs up and refuses calls |
// | failure     | its program throws an error                                                        |
// | leave       | it is told to leave, as by SIGTERM                                                 |
// | restart     | the host of a process that has ended starts its program anew                       |
// | pause       | it is stopped, as by SIGSTOP: its kernel still answers                             |
// | partition   | nothing arrives from one side at the other, both ways or one                       |
// | delay       | what goes from one to another takes longer                                         |
// | slow link   | few bytes a second go from one to another                                          |
// | slow worker | what it computes takes longer                                                      |
// | drift       | its clock is fast or slow                                                          |
//
// Two worlds suffer them: Cluster (cluster.h), where a crashed rank is gone for good, and Fleet
// (fleet.h), where it may come back.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <limits>
#include <set>
#include <vector>

#include "runtime/clock.h"

namespace starling {

enum class FaultKind : std::uint8_t {
  crash,
  failure,
  leave,
  restart,  // of one that was crashed, or left
  pause,
  partition,
  delay,
  slow_link,
  slow_worker,
  drift,
};

struct Faults {
  struct Moment {
    int rank;
    Time at;
  };
  struct Period {
    Time from, until;
    bool holds(Time now) const { return from <= now && now < until; }
  };
  struct Pause : Period {
    int rank;
  };
  enum class Way : std::uint8_t {
    both,
    out,  // nothing from these ranks arrives
    in,   // nothing arrives at them
  };
  struct Partition {
    std::vector<int> ranks;  // that are cut off from the others
    Time from, until;
    Way way = Way::both;
    std::vector<int> others = {};  // none: all others

    // Whether what the one sends does not arrive at the other, or the other way round.
    bool cuts(int sender, int receiver) const;
    bool parts(int a, int b) const { return cuts(a, b) || cuts(b, a); }
  };
  struct Delay : Period {
    int sender, receiver;
    Time by;
  };
  struct SlowLink : Period {
    int sender, receiver;
    double bytes_per_second;
  };
  struct SlowWorker : Period {
    int rank;
    double factor;
  };
  struct Drift {
    int rank;
    int millionths;  // that its clock gains, or loses
  };

  std::uint64_t seed = 0;  // of the run that they happen in
  // The others notice an end after a latency.
  std::vector<Moment> crashes, failures, leaves, restarts;
  std::vector<Pause> pauses;
  // A short partition only delays messages, as TCP sends them again; in one that lasts longer than
  // `detection` each side of a Cluster loses the other.
  std::vector<Partition> partitions;
  Time detection = std::chrono::seconds(10);
  std::vector<Delay> delays;
  std::vector<SlowLink> slow_links;
  std::vector<SlowWorker> slow_workers;
  std::vector<Drift> drifts;

  Time delay(int sender, int receiver, Time now) const;
  double bytes_per_second(int sender, int receiver, Time now) const;  // infinity: as many as ever
  // How long it takes to compute what takes so long at full speed.
  Time computing(int rank, Time now, Time work) const;
  // When all that passes has passed: nothing new happens from then on.
  Time last() const;
};

// Any number of any of these kinds that happen to n ranks, all of which are over, and all restarted
// who are to be, before the duration is. The same for the same arguments.
inline const std::set<FaultKind> kAllFaults = {
    FaultKind::crash,       FaultKind::failure,   FaultKind::leave, FaultKind::restart,
    FaultKind::pause,       FaultKind::partition, FaultKind::delay, FaultKind::slow_link,
    FaultKind::slow_worker, FaultKind::drift};
Faults draw_faults(std::uint64_t seed, int n, Time duration,
                   const std::set<FaultKind>& kinds = kAllFaults);

std::ostream& operator<<(std::ostream& out, const Faults& faults);

}  // namespace starling
