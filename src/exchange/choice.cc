#include "exchange/choice.h"

#include <algorithm>

namespace starling {

namespace {
constexpr Choice kMeasured[] = {
#include "exchange/choice.inc"
};
}  // namespace

std::span<const Choice> measured_choices() { return kMeasured; }

std::string_view choose_allreduce(std::span<const Choice> choices, int ranks, std::size_t bytes) {
  const int most = std::min(ranks, choices.back().most_ranks);
  const auto first = std::ranges::lower_bound(choices, most, {}, &Choice::most_ranks);
  const auto behind = std::ranges::upper_bound(choices, first->most_ranks, {}, &Choice::most_ranks);
  const auto fits = std::lower_bound(
      first, behind, bytes,
      [](const Choice& choice, std::size_t wanted) { return choice.most_bytes < wanted; });
  return (fits == behind ? behind - 1 : fits)->algorithm;
}

Task<> auto_allreduce(Group group, Channel channel, Vector values, Reduction reduction) {
  const std::string_view chosen =
      choose_allreduce(measured_choices(), group.size(), values.bytes().size());
  return find_allreduce(chosen)(group, channel, values, reduction);
}

}  // namespace starling
