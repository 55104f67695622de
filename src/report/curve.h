// A curve that grows for as long as a run lasts, and never beyond a fixed number of points: when it
// is full, every other one goes, and from then on only every other new one comes in.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace starling {

class Curve {
 public:
  static constexpr std::size_t kMostPoints = 512;

  void add(double x, double y) {
    if (seen_++ % stride_ != 0) return;
    points_.emplace_back(x, y);
    if (points_.size() < kMostPoints) return;
    for (std::size_t i = 0; i < kMostPoints / 2; ++i) points_[i] = points_[2 * i];
    points_.resize(kMostPoints / 2);
    stride_ *= 2;
  }

  const std::vector<std::pair<double, double>>& points() const { return points_; }

 private:
  std::vector<std::pair<double, double>> points_;
  std::size_t seen_ = 0;
  std::size_t stride_ = 1;
};

}  // namespace starling
