// The state of blocks that may have been cut elsewhere: by other servers, or by as many others.
#pragma once

#include <span>
#include <vector>

#include "base/range.h"
#include "base/state.h"

namespace starling {

class StoredBlocks {
 public:
  // What Block::visit_state tells of each, under the number of its first element.
  explicit StoredBlocks(const Snapshot& blocks);

  // Whether there is something of all of it.
  bool cover(Range range) const;
  // The state of a stretch of the model, put together from all blocks that reach into it: of weights,
  // and of what optimizers keep for each. Throws Error if part of it is nowhere.
  Snapshot in(Range range) const;

 private:
  friend Snapshot newest_blocks(std::span<const struct KeptBlocks> kept);
  struct Stored {
    Range range;
    Snapshot state;
    std::uint64_t version = 0;  // how many updates it has had; 0 if that was not kept
  };
  static void copy(const Stored& from, Range piece, Range whole, Snapshot& into);

  std::vector<Stored> stored_;
};

// What one server has of a model's blocks, its own and copies of others'.
struct KeptBlocks {
  std::uint64_t generation = 0;  // of the job, in which it had them
  Snapshot blocks;               // as StoredBlocks takes them
};
// What all of them have, as blocks that do not overlap: each from who knows the latest of it.
Snapshot newest_blocks(std::span<const KeptBlocks> kept);

}  // namespace starling
