// The measurement that the peer drivers share: check that the sum is right, then time the
// all-reduce. One definition, so that two peers are never timed in two ways.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace yardstick {

struct Options {
  std::vector<std::int64_t> sizes_bytes{4096, 65536, 1 << 20, 16 << 20};
  double seconds = 1.0;
};

inline void add_options(CLI::App& app, Options& options) {
  app.add_option("--bytes", options.sizes_bytes, "Buffer sizes, separated by commas")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--seconds", options.seconds, "Time to spend on each size")->capture_default_str();
  app.callback([&options] {
    // Both libraries count in int, which caps the size.
    constexpr std::int64_t kMaxBytes = 1 << 30;
    for (const std::int64_t bytes : options.sizes_bytes) {
      if (bytes > 0 && bytes <= kMaxBytes && bytes % 4 == 0) continue;
      throw CLI::ValidationError(
          "--bytes", fmt::format("{} is not a multiple of 4 from 4 to {}", bytes, kMaxBytes));
    }
    if (!(options.seconds > 0 && options.seconds <= 3600)) {
      throw CLI::ValidationError(
          "--seconds", fmt::format("{} is not above 0 and at most 3600", options.seconds));
    }
  });
}

/// One rank's view of a library under test.
class Peer {
 public:
  Peer(int own_rank, int world_size) : rank(own_rank), size(world_size) {}
  virtual ~Peer() = default;

  /// Returns the in-place sum over all ranks, bound to `buffer`. Collective.
  virtual std::function<void()> bind_all_reduce(std::span<float> buffer) = 0;
  virtual void barrier() = 0;
  /// Returns rank 0's `value` on every rank. Collective.
  virtual std::int64_t value_of_rank_0(std::int64_t value) = 0;

  const int rank;
  const int size;
};

/// Every rank contributes small integers of its own, so the float sum is exact in any order. The
/// period is prime, so a chunk that lands in the wrong place shows.
inline void check_sum(const Peer& peer, std::span<float> buffer,
                      const std::function<void()>& all_reduce) {
  constexpr std::size_t kPeriod = 251;
  for (std::size_t i = 0; i < buffer.size(); ++i) {
    buffer[i] = static_cast<float>((i % kPeriod + 1) * static_cast<std::size_t>(peer.rank + 1));
  }
  all_reduce();
  const auto rank_sum = static_cast<std::size_t>(peer.size * (peer.size + 1) / 2);
  for (std::size_t i = 0; i < buffer.size(); ++i) {
    const auto expected = static_cast<float>((i % kPeriod + 1) * rank_sum);
    if (buffer[i] != expected) {
      throw std::runtime_error(fmt::format("rank {}: wrong sum of {} elements: [{}] is {}, not {}",
                                           peer.rank, buffer.size(), i, buffer[i], expected));
    }
  }
}

inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

/// Times every size; rank 0 prints its own median for each as one line of JSON.
inline void run(Peer& peer, const Options& options, const std::string& name,
                const std::string& algorithm) {
  constexpr int kWarmUps = 2;
  for (const std::int64_t bytes : options.sizes_bytes) {
    std::vector<float> buffer(static_cast<std::size_t>(bytes) / sizeof(float));
    const std::function<void()> all_reduce = peer.bind_all_reduce(buffer);
    peer.barrier();
    check_sum(peer, buffer, all_reduce);
    // Zeros stay zeros however often they are summed in place.
    std::ranges::fill(buffer, 0.0F);

    const auto timed_seconds = [&] {
      peer.barrier();
      const auto start = std::chrono::steady_clock::now();
      all_reduce();
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    const auto warm_up_start = std::chrono::steady_clock::now();
    for (int i = 0; i < kWarmUps; ++i) timed_seconds();
    const std::chrono::duration<double> warm_up = std::chrono::steady_clock::now() - warm_up_start;
    const double affordable = options.seconds * kWarmUps / warm_up.count();
    const std::int64_t iterations =
        peer.value_of_rank_0(std::llround(std::clamp(affordable, 5.0, 1000.0)));

    std::vector<double> seconds(static_cast<std::size_t>(iterations));
    std::ranges::generate(seconds, timed_seconds);
    if (peer.rank == 0) {
      nlohmann::ordered_json line;
      line["peer"] = name;
      line["algorithm"] = algorithm;
      line["workers"] = peer.size;
      line["bytes"] = bytes;
      line["iterations"] = iterations;
      line["median_seconds"] = median(seconds);
      fmt::print("{}\n", line.dump());
      std::fflush(stdout);
    }
    // Nobody may drop a buffer that a slower rank still reads from or writes to.
    peer.barrier();
  }
}

}  // namespace yardstick
