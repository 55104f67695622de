#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "base/error.h"

namespace starling {

namespace {
constexpr std::array<const char*, 5> kByteUnits = {"B", "KB", "MB", "GB", "TB"};
}

std::string format_bytes(double bytes) {
  std::size_t unit = 0;
  // 999.5 would print as "1000" and 999.95 as "1000.0", hence the early step to the next unit.
  while (bytes >= (unit == 0 ? 999.5 : 999.95) && unit + 1 < kByteUnits.size()) {
    bytes /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes)
                   : fmt::format("{:.1f} {}", bytes, kByteUnits[unit]);
}

std::string format_duration(std::chrono::nanoseconds duration) {
  if (duration == duration.zero()) return "0 s";
  const double seconds = std::chrono::duration<double>(duration).count();
  // What would print as the next unit's 1 goes there.
  if (seconds < 999.95e-6) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 9.995e-3) return fmt::format("{:.2f} ms", seconds * 1e3);
  if (seconds < 99.95e-3) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 999.5e-3) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<long>(std::lround(seconds));
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

std::string format_count(double count) {
  const std::string digits = fmt::format("{:.0f}", count);
  std::string grouped;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0 && digits[i - 1] != '-') grouped += ',';
    grouped += digits[i];
  }
  return grouped;
}

std::uint64_t parse_bytes(std::string_view text) {
  const std::string whole(text);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && number >= 0) {
    std::string unit;
    for (char c : std::string(end, text.data() + text.size())) {
      if (c != ' ') unit += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
    if (unit.empty()) unit = "B";
    double scale = 1;
    for (const char* name : kByteUnits) {
      // 2^53: beyond that a double no longer holds every byte count.
      if (unit == name && number * scale < 0x1p53) {
        return static_cast<std::uint64_t>(std::llround(number * scale));
      }
      scale *= 1000;
    }
  }
  throw Error(fmt::format("'{}' is not a size", whole), "write it like 4KB, 1MB or 64MB");
}

}  // namespace starling
