// A round with neighbours: our vector goes to some ranks while others' come in and are added to it,
// each as often as its weight says.
//
// Nobody's vector is ever here whole: of each a window of segments is under way
// (exchange/segments.h), and a segment is added when all have sent theirs, in the order of `heard`,
// so that the sum is the same bits in every run.
#pragma once

#include <span>

#include "runtime/group.h"

namespace starling {

struct Heard {
  int rank;
  float weight;
};

// values <- own_weight values + sum of weight times the values that each of `heard` had. Those who
// are told must hear us in the same call, or by a move() (exchange/move.h).
Task<> weighted_sum(Group group, Channel channel, std::span<float> values, float own_weight,
                    std::span<const int> told, std::span<const Heard> heard);

}  // namespace starling
