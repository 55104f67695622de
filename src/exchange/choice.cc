#include "exchange/choice.h"

#include <algorithm>
#include <bit>

namespace starling {

namespace {
constexpr Choice kLoopback[] = {
#include "exchange/choice_loopback.inc"
};
constexpr Choice kSharedMemory[] = {
#include "exchange/choice_shared_memory.inc"
};
}  // namespace

std::span<const Choice> measured_choices(Carrier carrier) {
  if (carrier == Carrier::shared_memory) return kSharedMemory;
  return kLoopback;
}

std::string_view choose_allreduce(std::span<const Choice> choices, int ranks, std::size_t bytes) {
  const int most = std::min(ranks, choices.back().most_ranks);
  const auto first = std::ranges::lower_bound(choices, most, {}, &Choice::most_ranks);
  const auto behind = std::ranges::upper_bound(choices, first->most_ranks, {}, &Choice::most_ranks);
  const auto fits = std::lower_bound(
      first, behind, bytes,
      [](const Choice& choice, std::size_t wanted) { return choice.most_bytes < wanted; });
  return (fits == behind ? behind - 1 : fits)->algorithm;
}

// With latency L and bandwidth B, doubling takes log2 n (L + s/B) for s bytes and halving-doubling
// 2 log2 n L + 2 (n-1)/n s/B. They meet at 4 L B for four ranks: 5 KB at 10 Mbit/s and 1 ms, 10 KB at
// 1 Gbit/s and 20 us.
std::string_view choose_allreduce_between_hosts(int ranks, std::size_t bytes) {
  constexpr std::size_t kShort = 8192;
  if (bytes <= kShort) return "doubling";
  return std::has_single_bit(static_cast<unsigned>(ranks)) ? "halving-doubling" : "ring";
}

Task<> auto_allreduce(Group group, Channel channel, Vector values, Reduction reduction) {
  const std::size_t bytes = values.bytes().size();
  const Carrier carrier = group.comm().carrier();
  const std::string_view chosen =
      carrier == Carrier::network
          ? choose_allreduce_between_hosts(group.size(), bytes)
          : choose_allreduce(measured_choices(carrier), group.size(), bytes);
  return find_allreduce(chosen)(group, channel, values, reduction);
}

}  // namespace starling
