// How often a run keeps what it would need to go on, and how much of that stays.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/setting.h"

namespace starling {

struct CheckpointSettings {
  std::string every;
  int keep = 3;

  template <class Self, class Visitor>
  static void visit(Self& s, Visitor&& visit) {
    visit({"checkpoint_every", Section::trained,
           "keep what it takes to go on with --resume after every so many steps or so long, e.g. "
           "200steps or 30s; empty: never"},
          s.every);
    visit({"keep_checkpoints",
           Section::trained,
           "how many checkpoints stay, the last ones",
           {!s.every.empty(), "checkpoint_every"}},
          s.keep, 1, 1'000'000);
  }
};

struct CheckpointInterval {
  std::uint64_t steps = 0;  // 0: by time
  std::chrono::nanoseconds time{0};
  bool operator==(const CheckpointInterval&) const = default;
};
// What `every` says, if anything. Throws Error if it is not understood.
std::optional<CheckpointInterval> interval_of(const CheckpointSettings& settings);

}  // namespace starling
