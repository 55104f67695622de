// The mean of all at half the bytes, for systems that send so little that one exchange of whole
// models at the end would weigh more than all their training.
#pragma once

#include <span>

#include "runtime/comm.h"

namespace starling {

// All end with the same bits: the mean of everybody's weights, rounded to 16-bit floats before and
// after.
Task<> half_mean_of_all(Comm& comm, Channel channel, std::span<float> weights);

}  // namespace starling
