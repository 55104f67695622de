// "3:5": who is slowed down, and how many times.
#pragma once

#include <optional>
#include <string_view>

namespace starling {

struct Slowness {
  static constexpr double kMost = 1000;

  int who;
  double factor;  // from 1 to kMost

  static bool is_factor(double factor) { return factor >= 1 && factor <= kMost; }
};

// Nothing if it is not understood.
std::optional<Slowness> parse_slowness(std::string_view text);

}  // namespace starling
