// What servers do about gradients that are late.
#pragma once

#include "base/names.h"
#include "base/setting.h"

namespace starling {

// What is done about a gradient of staleness d that was computed on w_then.
struct StalenessRule {
  enum class Kind {
    plain,
    scale,       // the learning rate is divided by d
    compensate,  // g + lambda g g (w_now - w_then), element by element
  };
  friend constexpr Names<3> names_of(Kind) {
    return {"way to handle staleness", {"plain", "scale", "compensate"}};
  }

  Kind kind = Kind::plain;
  double lambda = 0.04;

  template <class Self, class Visitor>
  static void visit(Self& s, Visitor&& visit) {
    visit({"staleness", Section::servers,
           "server: what to do about stale gradients: " + names_listed<Kind>(" or ")},
          s.kind);
    visit({"compensation",
           Section::servers,
           "compensate: lambda in g + lambda g g (w_now - w_then)",
           {s.kind == Kind::compensate, "staleness compensate"}},
          s.lambda, 0.0, 1e6);
  }
};

}  // namespace starling
