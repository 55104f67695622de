// Reading and writing sizes and times as people do: "64 MB", "1.5 s". Sizes are decimal (1 MB =
// 10^6 bytes).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace starling {

std::string format_bytes(double bytes);                          // "87.4 KB"
std::string format_duration(std::chrono::nanoseconds duration);  // "1.10 ms", "2 min 5 s"
std::string format_count(double count);                          // "8,412"

// "4KB", "64 MB", "512" -> bytes; throws Error for anything else.
std::uint64_t parse_bytes(std::string_view text);
// "100mbit", "10 Gbit" -> bytes per second; throws Error for anything else.
double parse_rate(std::string_view text);
// "200us", "1.5 ms", "2 s", "10 min"; throws Error for anything else.
std::chrono::nanoseconds parse_duration(std::string_view text);

}  // namespace starling
