// When each stage of a pipeline does what: its turns, one forward and one backward a micro-batch.
//
//   naive   a micro-batch goes all the way and back before the next one sets out: one stage works,
//           the others wait
//   gpipe   all forward, then all backward: the bubble is (p - 1) / (m + p - 1) of the time, and a
//           stage keeps the activations of all m micro-batches
//   1f1b    one backward for each forward, as soon as the first gradient is back: the same bubble,
//           and the activations of p micro-batches at the most
#pragma once

#include <span>
#include <vector>

#include "base/names.h"

namespace starling {

enum class PipelineSchedule { naive, gpipe, one_f_one_b };
constexpr Names<3> names_of(PipelineSchedule) {
  return {"pipeline schedule", {"naive", "gpipe", "1f1b"}};
}

struct Turn {
  enum class Kind { forward, backward };
  Kind kind;
  int micro_batch;
  bool operator==(const Turn&) const = default;
};

std::vector<Turn> turns_of(PipelineSchedule schedule, int stage, int stages, int micro_batches);

// How many micro-batches' activations a stage keeps at a time, at the most.
int most_kept(std::span<const Turn> turns);

// How many micro-batches a stage computes once more where it keeps only its inputs: those that do not
// go back as soon as they are here.
int recomputed(std::span<const Turn> turns);

// What a stage takes for one micro-batch; the link is behind it, and takes as long either way.
struct StageCost {
  double forward_seconds = 0, backward_seconds = 0, link_seconds = 0;
};
struct TimedTurn {
  Turn turn;
  double begin = 0, end = 0;
};
// When each turn of each stage begins and ends, if stages take as long as that.
std::vector<std::vector<TimedTurn>> timetable(PipelineSchedule schedule,
                                              std::span<const StageCost> stages, int micro_batches);
// The share of the stages' time in which they wait.
double bubble(std::span<const std::vector<TimedTurn>> timetable);

}  // namespace starling
