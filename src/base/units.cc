#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>

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

namespace {

// "1.5 ms" is 1.5 of "MS".
struct Quantity {
  double number;
  std::string unit;  // in capitals
};
std::optional<Quantity> quantity_in(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !(number >= 0)) return std::nullopt;
  std::string unit;
  for (char c : std::string(end, text.data() + text.size())) {
    if (c != ' ') unit += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return Quantity{number, unit};
}

}  // namespace

std::uint64_t parse_bytes(std::string_view text) {
  if (auto quantity = quantity_in(text)) {
    if (quantity->unit.empty()) quantity->unit = "B";
    double scale = 1;
    for (const char* name : kByteUnits) {
      // 2^53: beyond that a double no longer holds every byte count.
      if (quantity->unit == name && quantity->number * scale < 0x1p53) {
        return static_cast<std::uint64_t>(std::llround(quantity->number * scale));
      }
      scale *= 1000;
    }
  }
  throw Error(fmt::format("'{}' is not a size", text), "write it like 4KB, 1MB or 64MB");
}

double parse_rate(std::string_view text) {
  if (const auto quantity = quantity_in(text)) {
    double bits = 1;
    for (const char* name : {"BIT", "KBIT", "MBIT", "GBIT", "TBIT"}) {
      const double rate = quantity->number * bits / 8;
      if (quantity->unit == name && rate > 0 && rate < 1e18) return rate;
      bits *= 1000;
    }
  }
  throw Error(fmt::format("'{}' is not a rate", text), "write it like 100mbit or 10gbit");
}

std::chrono::nanoseconds parse_duration(std::string_view text) {
  if (const auto quantity = quantity_in(text)) {
    double nanoseconds = 1;
    for (const char* name : {"NS", "US", "MS", "S"}) {
      const double duration = quantity->number * nanoseconds;
      if (quantity->unit == name && duration < 1e18) {
        return std::chrono::nanoseconds(std::llround(duration));
      }
      nanoseconds *= 1000;
    }
    for (const auto& [name, seconds] : {std::pair{"MIN", 60.0}, {"H", 3600.0}}) {
      const double duration = quantity->number * seconds * 1e9;
      if (quantity->unit == name && duration < 1e18) {
        return std::chrono::nanoseconds(std::llround(duration));
      }
    }
  }
  throw Error(fmt::format("'{}' is not a time", text), "write it like 200us, 5ms, 1s or 10min");
}

}  // namespace starling
