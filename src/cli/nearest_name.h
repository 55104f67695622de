// What somebody may have meant.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace starling {

// The name that a mistyped word is nearest to, by letters put in, left out, changed or swapped; none
// if it is unlike them all.
std::optional<std::string> nearest_name(std::string_view word, std::span<const std::string> names);

}  // namespace starling
