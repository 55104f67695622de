// Succession: how a new generation takes over from the one before. Its members may have come from
// there, or have just joined; and of those who were there, some may have ended the last step and others
// not.
//
//   A. All say where they stand: of which generation the work is that they know of, and how far they
//      are in it.
//   B. What was done of it is struck out (strategy/batch_ledger.h). Where gradients are averaged, a
//      step is done if anybody has ended it, since everybody's gradient is in it; else each has done
//      what it says, and who was lost what it has told somebody.
//   C. Who lacks something gets it from one who has it: where gradients are averaged, all that are
//      behind from the one that is furthest; else only who has just joined, from its neighbour.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "runtime/group.h"

namespace starling {

struct Standing {
  std::uint64_t generation = 0;  // 0: has just joined
  std::uint64_t rounds = 0;      // that it has done there
  std::uint32_t rank = 0;        // its worker there,
  std::uint32_t workers = 0;     // of so many
};
// What each member knows of the rounds that each worker of the newest generation has done; of who does
// not come from there nothing.
using Hearsay = std::vector<std::vector<std::uint64_t>>;

struct Succession {
  std::vector<std::uint64_t> done;         // by each worker of the newest generation: rounds
  std::vector<std::optional<int>> donors;  // of each worker of the next: who gives it what it lacks
};
// Throws Error if nobody has anything to go on from, or if they contradict each other.
Succession succession(const std::vector<Standing>& standings, const Hearsay& known, bool all_alike);

// What everybody says, in the order of places.
Task<> tell_standings(Group workers, Channel channel, Standing own,
                      std::vector<Standing>& standings);
Task<> tell_hearsay(Group workers, Channel channel, const std::vector<Standing>& standings,
                    const std::vector<std::uint64_t>& own, Hearsay& known);
// Who lacks something gets a donor's bytes; `mine` is asked for ours if somebody needs them. Of more
// than most_bytes, throws Error.
Task<> hand_over(Group workers, Channel channel, const Succession& succession,
                 const std::function<std::vector<std::byte>()>& mine, std::size_t most_bytes,
                 std::optional<std::vector<std::byte>>& received);

}  // namespace starling
