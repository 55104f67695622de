// The vector loops of the exchanges, by Highway for whatever vector unit the machine has.
#pragma once

#include <span>

namespace starling {

// into[i] += x[i]
void add(std::span<float> into, std::span<const float> x);

// into[i] = (into[i] + x[i]) / 2
void average(std::span<float> into, std::span<const float> x);

// values[i] *= factor
void scale(std::span<float> values, float factor);

}  // namespace starling
