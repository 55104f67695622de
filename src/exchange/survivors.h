// An exchange that goes on when ranks are lost in the middle of it. Losses must be contained.
#pragma once

#include <span>

#include "runtime/comm.h"

namespace starling {

// The first `workers` ranks that are left end with the mean of their values, each counted by its
// share. The lowest of them forms it; if that one is lost, the next begins again.
Task<> mean_of_survivors(Comm& comm, int workers, std::span<float> values, float share);

}  // namespace starling
