// How many passes there may be.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "topology/graph_settings.h"

namespace starling {

// Throws Error if there are too many for so many `members`: workers, or copies of the model. Graphs
// themselves take any number, since workers may become fewer while they train.
inline void check_passes(const GraphSettings& graph, int size,
                         std::string_view members = "workers") {
  if (graph.passes <= std::max(1, size - 1)) return;
  throw Error(fmt::format("passes = {} needs more than {} {}", graph.passes, size, members),
              size < 3 ? "it can only be 1"
                       : fmt::format("it goes from 1 to {}{}", size - 1,
                                     graph.repeats() ? "" : ", which averages over all"));
}

}  // namespace starling
