// Who may go on when a network falls apart. Both sides of a split believe that the other one is
// lost; if both went on, a run would have two results. So only one side may: the one that has more
// than half of the ranks, or half of them and among these the lowest. Ranks that are known to have
// ended do not count, or a few crashes would stop everybody.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace starling {

// What a rank knows of another.
enum class Presence : std::uint8_t {
  here,
  left,    // said goodbye: it is done, and not missed
  silent,  // cannot be reached, and may be doing well elsewhere
  dead,    // is known to have ended before its time
};

// From what a rank knows of all that have a vote, itself among them, in the order of ranks.
inline bool may_go_on(std::span<const Presence> voters) {
  const auto counts = [](Presence each) {
    return each == Presence::here || each == Presence::silent;
  };
  const auto all = std::ranges::count_if(voters, counts);
  const auto here = std::ranges::count(voters, Presence::here);
  const auto lowest = std::ranges::find_if(voters, counts);
  return 2 * here > all || (2 * here == all && all > 0 && *lowest == Presence::here);
}

}  // namespace starling
