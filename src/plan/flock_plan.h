// What may befall simulated hosts that come and go (sim/faults.h), drawn from a seed.
#pragma once

#include <iosfwd>

#include "base/random.h"
#include "sim/faults.h"
#include "sim/switch.h"

namespace starling {

struct FlockPlan {
  static constexpr Time kBegin = std::chrono::seconds(5);     // by then all have met
  static constexpr Time kTrouble = std::chrono::seconds(35);  // nothing happens after it

  static constexpr Time kSpan = kTrouble - kBegin;

  explicit FlockPlan(Random random);
  // These too, which are drawn for the time from 0 on.
  void add(Faults more);

  int size;   // who begins
  int hosts;  // and those who may join: they are "started anew"
  Weather weather;
  bool encrypted;
  bool same_doors;  // a process has its door where the one before it had it
  Faults faults;
};
std::ostream& operator<<(std::ostream& out, const FlockPlan& plan);

}  // namespace starling
