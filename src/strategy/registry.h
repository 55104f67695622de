// The strategies there are, one row each: all that others must know of one before it is made.
#pragma once

#include <memory>
#include <optional>

#include "strategy/strategy.h"

namespace starling {

// What a worker does that has run out of data while others go on.
enum class OutOfData {
  leaves,        // nobody waits for it
  sends_zeros,   // gradients are averaged: it adds none, and the mean is over those who have some
  keeps_mixing,  // its model stays as it is, and takes part in every round
  is_missed,     // others wait for its gradient, which would change what they learn: it must not be
};

struct StrategyRow {
  StrategyKind kind;
  Part reads;  // beside what all strategies read,
  bool codes;  // and whether it can send codes, which are a part of their own
  // pairwise, exponential and local are short for mix over a graph whose rule is the mean.
  std::optional<GraphSettings::Kind> graph;
  bool one_bucket;  // it wants all gradients at once
  MakeStrategy* make;
  // Throws Error, in one sentence, if what it reads does not go together.
  void (*check)(const Settings& settings);
  // Whether the others go on when a worker is lost.
  bool (*survives_losses)(const Settings& settings);
  // Whether the mean of all gradients of a step is what the weights are updated by.
  bool (*averages_gradients)(const Settings& settings);
  OutOfData (*out_of_data)(const Settings& settings);

  bool reads_part(Part part) const { return part == Part::codec ? codes : part == reads; }
};

const StrategyRow& strategy_row(StrategyKind kind);
inline bool wants_one_bucket(const Settings& settings) {
  return strategy_row(settings.strategy).one_bucket;
}
inline bool survives_losses(const Settings& settings) {
  if (settings.parallel.slices() > 1) return false;  // nobody else of the copy has that slice
  return strategy_row(settings.strategy).survives_losses(settings);
}
inline OutOfData out_of_data(const Settings& settings) {
  return strategy_row(settings.strategy).out_of_data(settings);
}
inline bool averages_gradients(const Settings& settings) {
  return strategy_row(settings.strategy).averages_gradients(settings);
}

// Whether all workers come to every step, so that one cut through all of them is after the same step;
// else each has a progress of its own.
bool cuts_together(const Settings& settings);

// The names of those that read this part; where the choice of graph, rule and schedule matters, only
// of those that leave it open.
std::vector<std::string_view> readers_of(Part part, bool only_where_open = false);

}  // namespace starling
