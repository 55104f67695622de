// Every length around that of a vector register, and some beyond.
#pragma once

#include <cstddef>
#include <vector>

namespace starling {

inline std::vector<std::size_t> lengths() {
  std::vector<std::size_t> all = {1000, 4095, 4096, 4097, 10'001};
  for (std::size_t length = 0; length <= 135; ++length) all.push_back(length);
  return all;
}

}  // namespace starling
