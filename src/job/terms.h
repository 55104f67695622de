// Terms: what all ranks of a job must have alike before they work together, "name = value", a line
// each: which Starling they run, and what whoever opens the job says of its settings (Job::terms).
//
// Ranks compare digests. Only where these differ do they show each other the text, each to one that
// has proved to be of the job.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "job/job.h"

namespace starling {

using Digest = std::array<std::byte, 32>;  // SHA-256

inline constexpr std::size_t kMostTermsBytes = 1 << 16;

// Throws Error if they are too long to be shown.
std::string terms_of(const Job& job);
Digest digest_of(const std::string& terms);

// The first few terms that two ranks have not alike, in words: "lr = 0.9 and epochs = 2" for one of
// them, what stands in their places for the other. The texts may be anything.
struct Difference {
  std::string theirs, ours;
};
Difference difference(const std::string& theirs, const std::string& ours);

}  // namespace starling
