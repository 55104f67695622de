// A graph of one's own, one edge a line:
//
//   # two racks and the link between them
//   0 1         workers 0 and 1 hear each other
//   1 -> 2      worker 2 hears worker 1
//
// Ranks count from 0; '#' begins a comment; an edge may stand there twice.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "topology/graph.h"

namespace starling {

// Throws Error, with file and line, for anything that is not a graph connecting `size` workers.
Graph read_graph_file(const std::filesystem::path& file, int size);

// The same from a text; `source` is its name in errors.
Graph parse_graph(std::string_view text, const std::string& source, int size);

}  // namespace starling
