#include "base/slowness.h"

#include <charconv>

namespace starling {

std::optional<Slowness> parse_slowness(std::string_view text) {
  Slowness slow{-1, 0};
  const char* const end = text.data() + text.size();
  const auto [colon, no_number] = std::from_chars(text.data(), end, slow.who);
  if (no_number != std::errc() || colon == end || *colon != ':') return std::nullopt;
  const auto [last, no_factor] = std::from_chars(colon + 1, end, slow.factor);
  if (no_factor != std::errc() || last != end) return std::nullopt;
  if (slow.who < 0 || !Slowness::is_factor(slow.factor)) return std::nullopt;
  return slow;
}

}  // namespace starling
