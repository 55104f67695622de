#include "runtime/host.h"

#include <fmt/format.h>

#include <algorithm>

namespace starling {

namespace {

bool is_version_4(const Address& address) {
  constexpr std::array<unsigned char, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255};
  return std::equal(kMapped.begin(), kMapped.end(), address.ip.begin());
}

}  // namespace

std::string to_string(const Address& address) {
  const auto& ip = address.ip;
  if (is_version_4(address)) {
    return fmt::format("{}.{}.{}.{}", ip[12], ip[13], ip[14], ip[15]);
  }
  std::string text;
  for (std::size_t i = 0; i < ip.size(); i += 2) {
    text += fmt::format("{}{:x}", i > 0 ? ":" : "", ip[i] * 256 + ip[i + 1]);
  }
  return text;
}

bool is_loopback(const Address& address) {
  constexpr std::array<unsigned char, 16> kVersion6 = {0, 0, 0, 0, 0, 0, 0, 0,
                                                       0, 0, 0, 0, 0, 0, 0, 1};
  return is_version_4(address) ? address.ip[12] == 127 : address.ip == kVersion6;
}

}  // namespace starling
