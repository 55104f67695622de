#include "measure/gap.h"

#include "base/check.h"

namespace starling {

double share_of_gap(double value, double none, double whole) {
  STARLING_CHECK(whole != none, "a share of no gap");
  return (value - none) / (whole - none);
}

std::vector<bool> front_of(const std::vector<Recovered>& points) {
  std::vector<bool> front;
  for (const Recovered& one : points) {
    bool beaten = false;
    for (const Recovered& other : points) {
      const bool as_good = other.bytes <= one.bytes && other.share >= one.share;
      beaten = beaten || (as_good && (other.bytes < one.bytes || other.share > one.share));
    }
    front.push_back(!beaten);
  }
  return front;
}

std::optional<std::size_t> best_within(const std::vector<Recovered>& points, double bytes) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (points[i].bytes > bytes) continue;
    if (!best || points[i].share > points[*best].share) best = i;
  }
  return best;
}

}  // namespace starling
