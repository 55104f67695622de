// How fast a system trains in the simulator, and what it makes of a slow worker. Strategies and servers
// are the real ones; time and network are the simulator's.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "runtime/clock.h"
#include "strategy/settings.h"

namespace starling {

// What is simulated: a small model on fast links, computing for most of a step.
inline constexpr std::uint64_t kStepsPerWorker = 100;
inline constexpr std::size_t kElements = 10'000;
inline constexpr double kBitsPerSecond = 1e9;
inline constexpr Time kLatency = std::chrono::microseconds(100);
inline constexpr Time kCompute = std::chrono::milliseconds(10);
// How fast weights move, which is all that a value bound looks at.
inline constexpr double kLearningRate = 0.02;
inline constexpr double kNoise = 0.5;

struct Pace {
  double batches_per_second = 0;  // of those that went into the model
  std::uint64_t skipped = 0;      // batches that nobody worked on
  std::uint64_t behind = 0;       // steps between the fastest worker and the slow one, at the end
  std::optional<std::uint64_t> dropped;  // where there are servers
  std::optional<double> staleness_mean;  // of gradients, or of models that were mixed in
  std::optional<std::uint64_t> staleness_max;
};

// Rethrows what a worker ended by.
Pace simulated_pace(const Settings& settings);

}  // namespace starling
