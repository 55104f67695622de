// What may befall simulated hosts that come and go, drawn from a seed.
#pragma once

#include <algorithm>
#include <array>
#include <ostream>
#include <vector>

#include "base/random.h"
#include "sim/switch.h"

namespace starling {

inline constexpr Time kTrouble = std::chrono::seconds(30);  // nothing happens after it

struct FlockEvent {
  enum class Kind { kill, restart, leave, join, cut, cut_one_way, heal, vanish };
  Kind kind;
  Time when;
  std::vector<int> hosts;
};

inline std::ostream& operator<<(std::ostream& out, const FlockEvent& event) {
  const char* names[] = {"kill", "restart",     "leave", "join",
                         "cut",  "cut one way", "heal",  "vanish"};
  out << names[static_cast<int>(event.kind)] << " (";
  for (int host : event.hosts) out << " " << host;
  return out << " ) at " << event.when.count() / 1'000'000 << " ms\n";
}

struct FlockPlan {
  int size;
  int hosts;
  Weather weather;
  bool encrypted;
  std::vector<FlockEvent> events;

  explicit FlockPlan(Random random) {
    size = std::array{1, 2, 3, 4, 5, 8}[random.below(6)];
    hosts = size + 2;
    weather.most_delay =
        std::array<Time, 3>{std::chrono::microseconds(100), std::chrono::milliseconds(5),
                            std::chrono::milliseconds(40)}[random.below(3)];
    weather.least_delay = weather.most_delay / 4;
    weather.short_share = std::array{0.0, 0.3}[random.below(2)];
    encrypted = random.below(4) == 0;
    const auto some_host = [&] {
      return static_cast<int>(random.below(static_cast<std::uint64_t>(size)));
    };
    const std::uint64_t count = random.below(6);
    for (std::uint64_t i = 0; i < count; ++i) {
      const Time when(random.below(static_cast<std::uint64_t>(Time(kTrouble).count())));
      switch (random.below(5)) {
        case 0:
          events.push_back({FlockEvent::Kind::kill, when, {some_host()}});
          break;
        case 1: {
          const int host = some_host();
          events.push_back({FlockEvent::Kind::kill, when, {host}});
          events.push_back(
              {FlockEvent::Kind::restart, when + Time(random.below(5'000'000'000)), {host}});
          break;
        }
        case 2:
          events.push_back({FlockEvent::Kind::leave, when, {some_host()}});
          break;
        case 3:
          events.push_back(
              {FlockEvent::Kind::join, when, {size + static_cast<int>(random.below(2))}});
          break;
        case 4: {
          std::vector<int> side;
          for (int host = 0; host < hosts; ++host) {
            if (random.below(2) == 0) side.push_back(host);
          }
          const bool one_way = random.below(3) == 0;
          events.push_back(
              {one_way ? FlockEvent::Kind::cut_one_way : FlockEvent::Kind::cut, when, side});
          break;
        }
      }
    }
    events.push_back({FlockEvent::Kind::heal, kTrouble, {}});
    std::ranges::stable_sort(events, {}, &FlockEvent::when);
  }
};

}  // namespace starling
