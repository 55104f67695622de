// A lender for tests: memory for one message at a time, unless it is full.
#pragma once

#include <optional>
#include <vector>

#include "runtime/comm.h"

namespace starling {

struct Chest : Lender {
  std::optional<Bytes> lend(std::size_t bytes) override {
    if (is_full) return std::nullopt;
    ++lent;
    memory.resize(bytes);
    return memory;
  }
  bool is_full = false;
  int lent = 0;
  std::vector<std::byte> memory;
};

}  // namespace starling
