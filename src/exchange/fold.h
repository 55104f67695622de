// Algorithms that want a power of two of ranks fold the others in first: of the first 2 x ranks,
// where x is how many there are too many, each odd one gives its values to its even neighbour and
// takes the result from it at the end.
#pragma once

#include "exchange/move.h"

namespace starling {

class RankFold {
 public:
  explicit RankFold(Group group);

  bool folded_in() const { return folded_in_; }  // this rank only waits for the result
  int active() const { return active_; }         // how many ranks take part, a power of two
  int position() const { return position_; }     // ours among those that take part
  int rank_at(int position) const { return position < extra_ ? 2 * position : position + extra_; }

  Task<> give(Group group, Channel channel, Vector values, Combine combine) const;
  Task<> take_back(Group group, Channel channel, Vector values) const;

 private:
  int active_;
  int extra_;
  bool has_neighbour_;
  bool folded_in_;
  int position_;
};

}  // namespace starling
