// Reductions of vectors of any element type, element by element, by Highway for whatever vector unit
// the machine has. They give the same bits as the plain loop, on every machine:
//
//   f32, f64        one IEEE operation
//   f16, bf16       the operation in f32, rounded to nearest, ties to even; what is too large becomes
//                   infinite
//   integers        as in C for unsigned ones: what does not fit wraps around
//   bool            sum and max are or, product and min are and; there is no mean
//
// and, or and xor are of the bits of integers and bools; floating-point numbers have none.
//
// min and max keep the first of two that are equal or cannot be compared.
#pragma once

#include <array>
#include <string_view>

#include "base/vector.h"

namespace starling {

enum class Reduction : std::uint8_t { sum, mean, min, max, product, bits_and, bits_or, bits_xor };
inline constexpr std::array<std::string_view, 8> kReductionNames = {
    "sum", "mean", "min", "max", "product", "and", "or", "xor"};

// into[i] = into[i] combined with x[i]. The mean's is the sum's: whoever forms it divides at the end.
using Combine = void (*)(Vector into, ConstVector x);
// Throws Error where there is no such reduction.
Combine combiner(Element type, Reduction reduction);

void combine(Vector into, ConstVector x, Reduction reduction);

// What is left to do when all have been combined: for the mean, divide by how many there were.
// Floating-point elements are multiplied by 1 / count; integers are divided and lose the rest.
void conclude(Vector values, Reduction reduction, int count);

// values[i] *= factor. Integers by way of doubles, and lose what is behind the point.
void multiply(Vector values, double factor);

}  // namespace starling
