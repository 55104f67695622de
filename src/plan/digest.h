// A number that tells two courses of events apart.
#pragma once

#include <bit>
#include <cstdint>
#include <string>

namespace starling {

class Digest {
 public:
  void add(std::uint64_t word) { sum_ = (std::rotl(sum_, 5) ^ word) * 0x9e3779b97f4a7c15; }
  void add(const std::string& text) {
    for (const char c : text) add(static_cast<std::uint64_t>(c));
  }
  std::uint64_t sum() const { return sum_; }

 private:
  std::uint64_t sum_ = 0;
};

}  // namespace starling
