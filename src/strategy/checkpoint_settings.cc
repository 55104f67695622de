#include "strategy/checkpoint_settings.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "base/error.h"
#include "base/units.h"

namespace starling {

std::optional<CheckpointInterval> interval_of(const CheckpointSettings& settings) {
  if (settings.every.empty()) return std::nullopt;
  CheckpointInterval interval;
  const char* const begin = settings.every.data();
  const char* const end = begin + settings.every.size();
  const auto [unit, error] = std::from_chars(begin, end, interval.steps);
  std::string_view name(unit, end);
  while (name.starts_with(' ')) name.remove_prefix(1);
  if (error == std::errc() && interval.steps > 0 && (name == "steps" || name == "step")) {
    return interval;
  }
  interval.steps = 0;
  try {
    interval.time = parse_duration(settings.every);
  } catch (const Error&) {
  }
  if (interval.time.count() == 0) {
    throw Error(fmt::format("checkpoint_every = '{}' is not understood", settings.every),
                "write it like 30s, 10min or 200steps");
  }
  return interval;
}

}  // namespace starling
