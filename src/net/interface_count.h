// What the kernel has counted on a network interface, headers and all: to check the ledger against.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace starling {

struct InterfaceCount {
  std::uint64_t sent_bytes = 0;
  std::uint64_t received_bytes = 0;
};

// Of this process's own interface of that name; nothing if it has none.
std::optional<InterfaceCount> own_interface_count(const std::string& interface);

}  // namespace starling
