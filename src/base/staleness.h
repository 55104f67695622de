// How stale things were when they were used: gradients at a server, by how many updates; models that
// were mixed in, by how many steps. Workers' and servers' counts add up.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace starling {

struct Staleness {
  static constexpr std::size_t kLongest = 64;  // from here on all are counted as this

  std::uint64_t count = 0;
  std::uint64_t sum = 0;
  std::uint64_t max = 0;
  std::array<std::uint64_t, kLongest + 1> histogram{};

  void add(std::uint64_t staleness) {
    ++count;
    sum += staleness;
    max = std::max(max, staleness);
    ++histogram[std::min<std::uint64_t>(staleness, kLongest)];
  }
  double mean() const {
    return count == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(count);
  }

  Staleness& operator+=(const Staleness& other) {
    count += other.count;
    sum += other.sum;
    max = std::max(max, other.max);
    for (std::size_t i = 0; i < histogram.size(); ++i) histogram[i] += other.histogram[i];
    return *this;
  }
};

}  // namespace starling
