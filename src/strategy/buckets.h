// Buckets: the parameters whose gradients are exchanged together, while the backward pass goes on.
#pragma once

#include <span>
#include <vector>

#include "strategy/strategy.h"

namespace starling {

// From the last parameter to the first, which is about the order in which their gradients become
// known; a bucket is full with so many elements. `parameters` are the ranges in the gradients at
// which they stand, one behind the other.
std::vector<Bucket> make_buckets(Replica replica, std::span<const Range> parameters,
                                 std::size_t full);

// With how many elements the settings have a bucket full.
std::size_t full_bucket(const Settings& settings);

// Where they stand in the gradients.
std::vector<Range> ranges_of(std::span<const Bucket> buckets);

}  // namespace starling
