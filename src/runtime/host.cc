#include "runtime/host.h"

#include <fmt/format.h>

#include <algorithm>

namespace starling {

std::string to_string(const Address& address) {
  constexpr std::array<unsigned char, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255};
  const auto& ip = address.ip;
  if (std::equal(kMapped.begin(), kMapped.end(), ip.begin())) {
    return fmt::format("{}.{}.{}.{}", ip[12], ip[13], ip[14], ip[15]);
  }
  std::string text;
  for (std::size_t i = 0; i < ip.size(); i += 2) {
    text += fmt::format("{}{:x}", i > 0 ? ":" : "", ip[i] * 256 + ip[i + 1]);
  }
  return text;
}

}  // namespace starling
