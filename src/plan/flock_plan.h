// What may befall simulated hosts that come and go, drawn from a seed.
#pragma once

#include <iosfwd>
#include <vector>

#include "base/random.h"
#include "sim/switch.h"

namespace starling {

struct FlockEvent {
  enum class Kind { kill, restart, leave, join, cut, cut_one_way, heal };
  Kind kind;
  Time when;
  std::vector<int> hosts;
};

struct FlockPlan {
  static constexpr Time kTrouble = std::chrono::seconds(30);  // nothing happens after it

  explicit FlockPlan(Random random);
  void sort_events();

  int size;   // who begins
  int hosts;  // and those who may join
  Weather weather;
  bool encrypted;
  std::vector<FlockEvent> events;
};
std::ostream& operator<<(std::ostream& out, const FlockPlan& plan);

}  // namespace starling
