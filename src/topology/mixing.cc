#include "topology/mixing.h"

#include <cmath>
#include <numbers>
#include <numeric>

namespace starling {

std::vector<std::vector<double>> window_matrix(int size, int passes) {
  const auto n = static_cast<std::size_t>(size);
  std::vector<std::vector<double>> matrix(n, std::vector<double>(n, 0.0));
  for (int i = 0; i < size; ++i) {
    for (int k = 0; k <= passes; ++k) {
      matrix[static_cast<std::size_t>(i)][static_cast<std::size_t>((i - k + size) % size)] +=
          1.0 / (passes + 1);
    }
  }
  return matrix;
}

std::vector<std::vector<double>> repeat_matrix(int size, int passes) {
  const auto n = static_cast<std::size_t>(size);
  std::vector<double> weights(n, 0.0);  // of those so far before us
  weights[0] = 1;
  for (int pass = 0; pass < passes; ++pass) {
    const std::vector<double> before = weights;
    for (std::size_t k = 0; k < n; ++k) weights[k] = (before[k] + before[(k + n - 1) % n]) / 2;
  }
  std::vector<std::vector<double>> matrix(n, std::vector<double>(n));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < n; ++k) matrix[i][(i + n - k) % n] = weights[k];
  }
  return matrix;
}

std::uint64_t dealing_rounds(int size, int members) {
  std::uint64_t rounds = 1;
  for (std::int64_t reached = members; reached < size; reached *= members) ++rounds;
  return rounds;
}

std::vector<std::vector<int>> dealt_groups(int size, int members, std::uint64_t round) {
  std::vector<int> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  std::vector<std::vector<int>> groups;
  for (std::uint64_t dealt = 0; dealt <= round % dealing_rounds(size, members); ++dealt) {
    groups.clear();
    for (std::size_t place = 0; place < order.size(); ++place) {
      if (place % static_cast<std::size_t>(members) == 0) groups.emplace_back();
      groups.back().push_back(order[place]);
    }
    order.clear();
    for (std::size_t place = 0; place < static_cast<std::size_t>(members); ++place) {
      for (const std::vector<int>& group : groups) {
        if (place < group.size()) order.push_back(group[place]);
      }
    }
  }
  return groups;
}

double pairwise_contraction(int size) {
  return size == 1 ? 0.0 : std::abs(std::cos(std::numbers::pi / size));
}

std::vector<WindowStep> window_steps(int ranks) {
  std::vector<WindowStep> steps;
  int summed = 1;
  for (int bit = std::bit_width(static_cast<unsigned>(ranks)) - 2; bit >= 0; --bit) {
    steps.push_back({summed, summed});
    summed *= 2;
    if ((ranks >> bit & 1) != 0) {
      steps.push_back({summed, 1});
      summed += 1;
    }
  }
  return steps;
}

}  // namespace starling
