#include "measure/varied.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace starling {

// A flag makes alike what differed before.
void check_left_to_grid(const MeasureOptions& options, const char* grid,
                        std::initializer_list<std::string_view> varied) {
  Settings one, other;
  other.optimizer.lr += 1;
  other.optimizer.momentum = one.optimizer.momentum / 2;
  other.train.samples += 1;
  other.train.epochs += 1;
  other.train.steps += 1;
  const auto left = different_settings(options.settings_over(one), options.settings_over(other));
  for (const std::string& name : different_settings(one, other)) {
    if (std::ranges::count(varied, name) == 0 || std::ranges::count(left, name) > 0) continue;
    throw Error(
        fmt::format("--{} does not go with --grid {}, which goes through several", name, grid),
        "leave it out");
  }
}

}  // namespace starling
