// Which graph: topology/graph.h says what each is.
#pragma once

#include <string>
#include <vector>

#include "base/names.h"
#include "base/setting.h"

namespace starling {

struct GraphSettings {
  enum class Kind { window, closed_ring, exponential, static_exponential, tree, star, mesh, file };
  friend constexpr Names<8> names_of(Kind) {
    return {"graph",
            {"window", "closed-ring", "exponential", "static-exponential", "tree", "star", "mesh",
             "file"}};
  }

  // What several passes mean: the mean over a window of so many ring predecessors, the mean of two
  // so many times in a row, or the mean within groups of one more, which change from round to round.
  enum class Passes { window, repeat, group };
  friend constexpr Names<3> names_of(Passes) {
    return {"meaning of passes", {"window", "repeat", "group"}};
  }

  Kind kind = Kind::window;
  int size = 1;        // how many workers
  int passes = 1;      // window: how many ring predecessors a worker hears
  int arity = 2;       // tree: how many children a worker has
  std::string file{};  // file: where its edges are, see graph_file.h
  // closed-ring: how much the one before, a worker itself and the one after it count; none: alike
  std::vector<double> merge_weights{};
  Passes passes_mean = Passes::window;

  bool in_groups() const { return kind == Kind::window && passes_mean == Passes::group; }
  bool repeats() const { return kind == Kind::window && passes_mean == Passes::repeat; }

  // But for size, passes, what they mean, and merge_weights, which are not the graph's alone.
  template <class Self, class Visitor>
  static void visit(Self& s, Visitor&& visit) {
    visit(
        {"graph",
         Section::decentral,
         fmt::format("mix: who hears whom: {} (see `starling graph`)", names_listed<Kind>(" or ")),
         {.only_where_open = true}},
        s.kind);
    visit({"arity",
           Section::decentral,
           "graph tree: how many children a worker has",
           {s.kind == Kind::tree, "graph tree", "", true}},
          s.arity, 1, 4096);
    visit({"graph_file",
           Section::decentral,
           "graph file: one edge a line, 'a b' or 'a -> b'",
           {s.kind == Kind::file, "graph file", "", true},
           Alike::contents},
          s.file);
  }
};

}  // namespace starling
