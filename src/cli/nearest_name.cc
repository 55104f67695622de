#include "cli/nearest_name.h"

#include <algorithm>
#include <vector>

namespace starling {

namespace {

// How many letters must be put in, left out, changed, or swapped with the next one.
std::size_t typing_errors(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      const std::size_t changed = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({changed, cost[i - 1][j] + 1, cost[i][j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

std::optional<std::string> nearest_name(std::string_view word, std::span<const std::string> names) {
  std::optional<std::string> nearest;
  std::size_t least = std::max<std::size_t>(1, word.size() / 3) + 1;  // more is another word
  for (const std::string& name : names) {
    const std::size_t errors = typing_errors(word.substr(0, 64), name);
    if (errors >= least) continue;
    least = errors;
    nearest = name;
  }
  return nearest;
}

}  // namespace starling
