// The state of blocks that may have been cut elsewhere: by other servers, or by as many others.
#pragma once

#include <vector>

#include "base/range.h"
#include "base/state.h"

namespace starling {

class StoredBlocks {
 public:
  // What Block::visit_state tells of each, under the number of its first element.
  explicit StoredBlocks(const Snapshot& blocks);

  // The state of a stretch of the model, put together from all blocks that reach into it: of weights,
  // and of what optimizers keep for each. Throws Error if part of it is nowhere.
  Snapshot in(Range range) const;

 private:
  struct Stored {
    Range range;
    Snapshot state;
  };
  std::vector<Stored> stored_;
};

}  // namespace starling
