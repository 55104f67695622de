// Handwriting-like digits drawn from a seed, for training where MNIST cannot be fetched, and for
// tests. Harder than it looks: a small convolutional network learns it from a few thousand images,
// a linear model does not.
#pragma once

#include <cstddef>
#include <cstdint>

#include "train/digit_set.h"

namespace starling {

// The i-th image and label of a split depend only on the seed, the split and i: a larger set starts
// with the smaller one, and every machine draws the same pixels. Every ten images in a row hold
// each digit once.
Digits synthetic_digits(std::size_t train_count, std::size_t test_count, std::uint64_t seed);

}  // namespace starling
