#include "strategy/train_settings.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "base/error.h"

namespace starling {

std::optional<double> target_accuracy(const TrainSettings& settings) {
  if (settings.until.empty()) return std::nullopt;
  constexpr std::string_view kPrefix = "accuracy=";
  double accuracy = -1;
  if (settings.until.starts_with(kPrefix)) {
    const char* first = settings.until.data() + kPrefix.size();
    const char* last = settings.until.data() + settings.until.size();
    const auto [end, error] = std::from_chars(first, last, accuracy);
    if (error != std::errc() || end != last) accuracy = -1;
  }
  if (!(accuracy > 0 && accuracy <= 1)) {
    throw Error(fmt::format("until = '{}' is not understood", settings.until),
                "write it like accuracy=0.97");
  }
  return accuracy;
}

}  // namespace starling
