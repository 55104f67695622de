// What exchanging is worth lies between workers that never talk and all-reduce. How much of that gap
// a setting recovers, for how many bytes.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace starling {

// 0 at `none`, 1 at `whole`, whichever of them is the larger number.
double share_of_gap(double value, double none, double whole);

struct Recovered {
  double bytes;
  double share;  // of the gap
};

// Which of them no other beats in both, being at least as cheap and at least as good.
std::vector<bool> front_of(const std::vector<Recovered>& points);

// The one that recovers most for at most so many bytes, if any is so cheap.
std::optional<std::size_t> best_within(const std::vector<Recovered>& points, double bytes);

}  // namespace starling
