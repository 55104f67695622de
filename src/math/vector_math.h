// Loops over vectors of floats, by Highway for whatever vector unit the machine has.
#pragma once

#include <span>

namespace starling {

// into[i] += x[i]
void add(std::span<float> into, std::span<const float> x);

// into[i] = (into[i] + x[i]) / 2
void average(std::span<float> into, std::span<const float> x);

// into[i] += weight * (x[i] - into[i])
void blend(std::span<float> into, std::span<const float> x, float weight);

// sum of (a[i] - b[i])^2
double squared_distance(std::span<const float> a, std::span<const float> b);

// sum of a[i] * b[i]
double dot(std::span<const float> a, std::span<const float> b);

// values[i] *= factor
void scale(std::span<float> values, float factor);

// into[i] -= factor * x[i]; and, for the second, copy[i] = into[i], where copy may be x. The product is
// rounded before it is taken away, so that all machines come to the same bits, whatever they can do in
// one instruction, and wherever in a vector the element stands.
void subtract_scaled(std::span<float> into, std::span<const float> x, float factor);
void subtract_scaled(std::span<float> into, std::span<const float> x, float factor,
                     std::span<float> copy);

}  // namespace starling
