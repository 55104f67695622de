// Of all that a grid compares, those that --only names.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"

namespace starling {

// All if it names none; throws Error on a name that there is not. Each has a name.
template <class Named>
std::vector<Named> chosen(std::vector<Named> all, const std::vector<std::string>& only) {
  if (only.empty()) return all;
  std::vector<std::string> names;
  for (const Named& each : all) names.emplace_back(each.name);
  for (const std::string& name : only) {
    if (std::ranges::find(names, name) != names.end()) continue;
    throw Error(fmt::format("--only names '{}', which this grid does not have", name),
                fmt::format("it has {}", fmt::join(names, ", ")));
  }
  std::erase_if(all, [&](const Named& each) {
    return std::ranges::find(only, std::string(each.name)) == only.end();
  });
  return all;
}

}  // namespace starling
