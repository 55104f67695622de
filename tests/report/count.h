#pragma once

#include <cstddef>
#include <string>

namespace starling {

// How often the text has that part.
inline std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace starling
