// CRC-32C (Castagnoli), the checksum in files of TensorFlow's record format.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace starling {

// What each value of a byte does to the remainder; the polynomial's bits are reversed.
inline constexpr std::array<std::uint32_t, 256> kCrc32cTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ (rest & 1) * 0x82F63B78u;
    table[byte] = rest;
  }
  return table;
}();

constexpr std::uint32_t crc32c(std::string_view data) {
  std::uint32_t rest = ~0u;
  for (char c : data) {
    rest = rest >> 8 ^ kCrc32cTable[(rest ^ static_cast<unsigned char>(c)) & 0xFF];
  }
  return ~rest;
}

}  // namespace starling
