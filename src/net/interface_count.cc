#include "net/interface_count.h"

#include <array>
#include <fstream>
#include <sstream>

namespace starling {

std::optional<InterfaceCount> own_interface_count(const std::string& interface) {
  std::ifstream table("/proc/self/net/dev");
  for (std::string line; std::getline(table, line);) {
    const auto colon = line.find(':');
    const auto begin = line.find_first_not_of(' ');
    if (colon == std::string::npos || line.substr(begin, colon - begin) != interface) continue;
    // Eight numbers of what came in, then eight of what went out; bytes are the first of each.
    std::istringstream numbers(line.substr(colon + 1));
    std::array<std::uint64_t, 9> values{};
    for (std::uint64_t& value : values) numbers >> value;
    return InterfaceCount{.sent_bytes = values[8], .received_bytes = values[0]};
  }
  return std::nullopt;
}

}  // namespace starling
