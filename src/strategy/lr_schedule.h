// How the learning rate changes in a run, as a share of `lr`: it warms up, and then stays, falls in
// steps, or follows half a cosine down. Central and decentral systems have the same one: where
// servers update, workers tell them with each push.
#pragma once

#include <cstdint>

#include "base/names.h"
#include "base/setting.h"

namespace starling {

struct LrSchedule {
  enum class Kind { constant, step, cosine };
  friend constexpr Names<3> names_of(Kind) {
    return {"learning rate schedule", {"constant", "step", "cosine"}};
  }

  Kind kind = Kind::constant;
  double step_epochs = 1;    // step: it falls after so many epochs, and again,
  double decay = 0.1;        // to so much of what it was
  double end = 0;            // cosine: what is left of it at the end of the run
  double warmup_epochs = 0;  // until it is whole

  // In step `step` of `steps`, counted from 0; an epoch has `steps_per_epoch`. From 0 to 1.
  double share(std::uint64_t step, std::uint64_t steps_per_epoch, std::uint64_t steps) const;

  // The built-in trainer follows it; a loop of the user's own has its own schedule.
  template <class Self, class Visitor>
  static void visit(Self& s, Visitor&& visit) {
    const auto goes_with = [&](Kind kind) {
      return Use{s.kind == kind, fmt::format("lr_schedule {}", kind)};
    };
    visit({"lr_schedule", Section::trained,
           "how the learning rate falls: " + names_listed<Kind>(" or ")},
          s.kind);
    visit({"lr_step", Section::trained, "step: it falls after every so many epochs",
           goes_with(Kind::step)},
          s.step_epochs, 1e-3, 1e6);
    visit({"lr_decay", Section::trained, "step: to so much of what it was", goes_with(Kind::step)},
          s.decay, 0.0, 1.0);
    visit({"lr_end", Section::trained,
           "cosine: the share of lr that is left at the end of the run, e.g. 0.1",
           goes_with(Kind::cosine)},
          s.end, 0.0, 1.0);
    visit({"warmup", Section::trained,
           "the learning rate first rises evenly to lr, for so many epochs; may be a fraction"},
          s.warmup_epochs, 0.0, 1e6);
  }
};

}  // namespace starling
