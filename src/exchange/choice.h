// The right all-reduce by itself: short vectors are a matter of how many messages follow one another,
// long ones of how many bytes each rank sends, and where the border lies depends on what carries them.
// Between the processes of one machine it was measured:
// `starling bench exchange --write-choice src/exchange/choice_loopback.inc`, and with `--transport mpi`
// choice_shared_memory.inc. Between machines bytes cost more
// than messages long before that, and those that send the fewest are right for all but short vectors.
#pragma once

#include "exchange/allreduce.h"

namespace starling {

// For vectors of up to `most_bytes` among up to `most_ranks` ranks. Rows stand in that order: ranks
// first, then bytes.
struct Choice {
  int most_ranks;
  std::size_t most_bytes;
  std::string_view algorithm;
};

// What was measured within a machine. The last row of each number of ranks is for all longer vectors, the last number
// of ranks for all larger groups.
std::span<const Choice> measured_choices(Carrier carrier);

// The algorithm for vectors of so many bytes among so many ranks: the same on all ranks, as they all
// have the same program.
std::string_view choose_allreduce(std::span<const Choice> choices, int ranks, std::size_t bytes);

// The same between machines.
std::string_view choose_allreduce_between_hosts(int ranks, std::size_t bytes);

// All-reduce by the algorithm that is right for where the ranks are, how many, and the vector.
Allreduce auto_allreduce;

}  // namespace starling
