// The mean of all at half the bytes, for systems that send so little that one exchange of whole
// models at the end would weigh more than all their training.
#pragma once

#include <span>

#include "runtime/group.h"

namespace starling {

// All end with the same bits: the mean of everybody's weights, rounded to 16-bit floats before and
// after. Those have eleven bits of precision. A vector that goes beyond their range, 65504, is sent
// with a scale, so that nothing is clipped; infinities and NaNs stay what they are.
Task<> half_mean_of_all(Group group, Channel channel, std::span<float> weights);

}  // namespace starling
