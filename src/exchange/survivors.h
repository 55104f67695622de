// An exchange that goes on when ranks are lost in the middle of it. Losses must be contained.
#pragma once

#include <span>

#include "runtime/group.h"

namespace starling {

// Those who are left end with the mean of their values, each counted by its share; if whoever had one
// is lost, all count alike. The lowest of them
// forms it; if that one is lost, the next begins again. The group's channels must be for this alone.
Task<> mean_of_survivors(Group group, std::span<float> values, float share);

}  // namespace starling
