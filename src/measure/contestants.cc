#include "measure/contestants.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace starling {

void run_contestant(const LaunchPlan& plan, const std::string& who,
                    const std::function<void(const nlohmann::json&)>& on_report) {
  const LaunchResult outcome = launch(plan, [&](int, std::string_view line) {
    const auto event = nlohmann::json::parse(line, nullptr, false);
    if (event.is_object()) on_report(event);
  });
  if (outcome.interrupted) throw Interrupted(outcome);
  if (outcome.exit_code != 0) throw Error(who + ": " + outcome.error);
}

std::vector<std::string> shell_reporting(const std::string& script) {
  return {"/bin/sh", "-c", script + " > /dev/fd/$STARLING_EVENTS_FD"};
}

std::string network_description(const std::string& lab) {
  return lab.empty() ? "loopback TCP" : fmt::format("TCP in the lab {}", lab);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace starling
