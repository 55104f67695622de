#include "plan/flock_plan.h"

#include <algorithm>
#include <array>
#include <ostream>

namespace starling {

namespace {

using namespace std::chrono_literals;

std::ostream& operator<<(std::ostream& out, const FlockEvent& event) {
  constexpr std::array kNames = {"kill", "restart", "leave", "join", "cut", "cut one way", "heal"};
  out << kNames[static_cast<std::size_t>(event.kind)];
  for (int host : event.hosts) out << " " << host;
  return out << " at " << event.when.count() / 1'000'000 << " ms";
}

}  // namespace

FlockPlan::FlockPlan(Random random) {
  using Kind = FlockEvent::Kind;
  size = std::array{1, 2, 3, 4, 5, 8}[random.below(6)];
  hosts = size + 2;
  weather.most_delay = std::array<Time, 3>{100us, 5ms, 40ms}[random.below(3)];
  weather.least_delay = weather.most_delay / 4;
  weather.short_share = std::array{0.0, 0.3}[random.below(2)];
  encrypted = random.below(4) == 0;
  const auto some_host = [&] {
    return static_cast<int>(random.below(static_cast<std::uint64_t>(size)));
  };
  const std::uint64_t count = random.below(6);
  for (std::uint64_t i = 0; i < count; ++i) {
    const Time when(random.below(static_cast<std::uint64_t>(kTrouble.count())));
    switch (random.below(5)) {
      case 0:
        events.push_back({Kind::kill, when, {some_host()}});
        break;
      case 1: {
        const int host = some_host();
        events.push_back({Kind::kill, when, {host}});
        events.push_back({Kind::restart, when + Time(random.below(5'000'000'000)), {host}});
        break;
      }
      case 2:
        events.push_back({Kind::leave, when, {some_host()}});
        break;
      case 3:
        events.push_back({Kind::join, when, {size + static_cast<int>(random.below(2))}});
        break;
      case 4: {
        std::vector<int> side;
        for (int host = 0; host < hosts; ++host) {
          if (random.below(2) == 0) side.push_back(host);
        }
        const bool one_way = random.below(3) == 0;
        events.push_back({one_way ? Kind::cut_one_way : Kind::cut, when, side});
        break;
      }
    }
  }
  events.push_back({Kind::heal, kTrouble, {}});
  sort_events();
}

void FlockPlan::sort_events() { std::ranges::stable_sort(events, {}, &FlockEvent::when); }

std::ostream& operator<<(std::ostream& out, const FlockPlan& plan) {
  out << plan.size << " hosts, " << (plan.encrypted ? "encrypted, " : "") << plan.weather;
  for (const FlockEvent& event : plan.events) out << "; " << event;
  return out;
}

}  // namespace starling
