// When workers mix, and whether they wait for each other.
#pragma once

#include "base/names.h"
#include "base/setting.h"

namespace starling {

struct ScheduleSettings {
  enum class Kind { sync, async, bounded };
  friend constexpr Names<3> names_of(Kind) { return {"schedule", {"sync", "async", "bounded"}}; }

  Kind kind = Kind::sync;
  int period = 1;
  double probability = 1;
  double compute_ratio = 0;
  int ahead_bound = 16;
  bool overlap = false;

  template <class Self, class Visitor>
  static void visit(Self& s, Visitor&& visit) {
    visit({"period", Section::together,
           "mix, pairwise, exponential, local: mix after every so many local steps"},
          s.period, 1, 1'000'000);
    visit({"schedule",
           Section::decentral,
           "mix: " + names_listed<Kind>(" or "),
           {.only_where_open = true}},
          s.kind);
    visit({"probability", Section::decentral,
           "mix: whether to mix when it is due, above 0 and up to 1 (always)"},
          s.probability, 1e-9, 1.0);
    visit({"compute_ratio", Section::decentral,
           "mix: choose the period so that computing takes so many times as long as mixing "
           "(SparkNet: 5); 0: keep it"},
          s.compute_ratio, 0.0, 1e6);
    visit({"ahead_bound",
           Section::decentral,
           "bounded: how many steps a worker may be ahead of the slowest it hears",
           {s.kind == Kind::bounded, "schedule bounded"}},
          s.ahead_bound, 1, 1'000'000);
    visit({"overlap", Section::decentral, "sync: mix while the next steps are computed"},
          s.overlap);
  }
};

}  // namespace starling
