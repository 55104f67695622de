// What a server has seen: how many gradients it applied and dropped, and how stale they were.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace starling {

struct ServerReport {
  // A gradient's staleness is how many updates its block has had since the worker read it. The last
  // bin holds all that is more. Gradients are counted block by block.
  static constexpr std::size_t kBins = 64;

  std::uint64_t updates = 0;
  std::uint64_t applied = 0;
  std::uint64_t dropped = 0;
  std::uint64_t staleness_sum = 0;
  std::uint64_t staleness_max = 0;
  std::array<std::uint64_t, kBins> staleness{};

  void count(std::uint64_t delay) {
    ++applied;
    staleness_sum += delay;
    staleness_max = std::max(staleness_max, delay);
    ++staleness[std::min<std::size_t>(delay, kBins - 1)];
  }

  ServerReport& operator+=(const ServerReport& other) {
    updates += other.updates;
    applied += other.applied;
    dropped += other.dropped;
    staleness_sum += other.staleness_sum;
    staleness_max = std::max(staleness_max, other.staleness_max);
    for (std::size_t i = 0; i < kBins; ++i) staleness[i] += other.staleness[i];
    return *this;
  }
};

}  // namespace starling
