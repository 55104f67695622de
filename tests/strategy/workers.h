// Several workers in the simulator, each with a replica and a strategy of its own, driven through
// the hooks as a training loop drives them; and the plain maths that they are compared with.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/random.h"
#include "runtime/all.h"
#include "sim/cluster.h"
#include "strategy/strategy.h"

namespace starling {

using Floats = std::vector<float>;
using Vectors = std::vector<Floats>;  // one a worker

inline Vectors random_vectors(int size, std::size_t elements, std::uint64_t seed) {
  Random random{seed, static_cast<std::uint64_t>(size), elements};
  Vectors vectors(static_cast<std::size_t>(size), Floats(elements));
  for (Floats& vector : vectors) {
    for (float& value : vector) value = static_cast<float>(random.uniform(-1, 1));
  }
  return vectors;
}

inline std::vector<double> mean_of(const Vectors& vectors) {
  std::vector<double> mean(vectors[0].size());
  for (const Floats& vector : vectors) {
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += static_cast<double>(vector[i]);
  }
  for (double& value : mean) value /= static_cast<double>(vectors.size());
  return mean;
}

// w_i <- mean of w_i and the `passes` before it around the ring.
inline Vectors window_means(const Vectors& before, int passes) {
  const std::size_t n = before.size();
  Vectors after;
  for (std::size_t rank = 0; rank < n; ++rank) {
    Vectors window;
    for (std::size_t k = 0; k <= static_cast<std::size_t>(passes); ++k) {
      window.push_back(before[(rank + n - k) % n]);
    }
    const std::vector<double> mean = mean_of(window);
    after.emplace_back(mean.begin(), mean.end());
  }
  return after;
}

// The largest difference between two workers' or two sets of vectors.
inline double difference(const Vectors& a, const Vectors& b) {
  double largest = 0;
  for (std::size_t rank = 0; rank < a.size(); ++rank) {
    for (std::size_t i = 0; i < a[rank].size(); ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(a[rank][i] - b[rank][i])));
    }
  }
  return largest;
}

class Workers {
 public:
  Workers(const Settings& settings, std::size_t weights_elements, std::size_t gradients_elements)
      : weights(random_vectors(settings.workers, weights_elements, 1)),
        gradients(random_vectors(settings.workers, gradients_elements, 2)),
        cluster_(settings.workers) {
    check_settings(settings);
    for (int rank = 0; rank < settings.workers; ++rank) {
      strategies_.push_back(make_strategy(settings, cluster_.comm(rank)));
    }
  }

  void start() {
    run([this](std::size_t rank) { return strategies_[rank]->start(replica(rank)); });
  }
  // All buckets at the same time, as the backward pass may have it.
  void after_backward(int buckets = 1) {
    run([this, buckets](std::size_t rank) {
      std::vector<Task<>> tasks;
      for (int i = 0; i < buckets; ++i) {
        const Range range = part(gradients[rank].size(), static_cast<std::size_t>(buckets),
                                 static_cast<std::size_t>(i));
        tasks.push_back(strategies_[rank]->after_backward(
            {i, range, part_of(std::span<float>(gradients[rank]), buckets, i), {}}));
      }
      return all(std::move(tasks));
    });
  }
  void after_update() {
    run([this](std::size_t rank) { return strategies_[rank]->after_update(replica(rank)); });
  }
  void finish() {
    run([this](std::size_t rank) { return strategies_[rank]->finish(replica(rank)); });
  }

  // What all workers together, or one of them, have sent.
  std::uint64_t sent_bytes(Purpose purpose) {
    std::uint64_t sum = 0;
    for (int rank = 0; rank < cluster_.size(); ++rank) sum += sent_bytes(rank, purpose);
    return sum;
  }
  std::uint64_t sent_bytes(int rank, Purpose purpose) {
    return cluster_.comm(rank).ledger().total(Direction::sent, purpose).payload;
  }
  std::uint64_t sent_bytes() {
    std::uint64_t sum = 0;
    for (int rank = 0; rank < cluster_.size(); ++rank) {
      sum += cluster_.comm(rank).ledger().total(Direction::sent).payload;
    }
    return sum;
  }

  Vectors weights, gradients;

 private:
  Replica replica(std::size_t rank) { return {weights[rank], gradients[rank]}; }

  template <class Hook>
  void run(const Hook& hook) {
    cluster_.run([&](Comm& comm) { return hook(static_cast<std::size_t>(comm.rank())); });
  }

  Cluster cluster_;
  std::vector<std::unique_ptr<Strategy>> strategies_;
};

inline Settings settings_for(const std::string& strategy, int workers) {
  Settings settings;
  settings.strategy = named<StrategyKind>(strategy);
  settings.workers = workers;
  return settings;
}

inline constexpr int kWorkerCounts[] = {1, 2, 3, 5, 8};

}  // namespace starling
