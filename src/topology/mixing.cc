#include "topology/mixing.h"

#include <cmath>
#include <numbers>

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
