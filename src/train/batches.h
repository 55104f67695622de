// Which samples each worker takes in each step. Every epoch all samples are shuffled by the seed,
// the same on all workers; step t takes the next workers x batch of them, and each worker its own
// consecutive share. So no sample is taken twice, and n workers with batches of B see what one
// worker with batches of n B sees.
//
// The last step of an epoch may have fewer samples than workers x batch: they are shared out
// evenly, and a worker may get none. It still takes part in the exchange.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace starling {

class Batches {
 public:
  Batches(std::size_t samples, int workers, int batch, std::uint64_t seed);

  std::uint64_t steps_per_epoch() const { return steps_per_epoch_; }

  struct Batch {
    std::span<const std::int64_t>
        indices;  // this worker's samples; valid until another epoch is asked for
    std::size_t samples_of_all = 0;  // taken by all workers together in this step
  };
  Batch batch(std::uint64_t step, int rank);

 private:
  void shuffle_for(std::uint64_t epoch);

  std::size_t workers_;
  std::size_t global_batch_;
  std::uint64_t seed_;
  std::uint64_t steps_per_epoch_;
  std::uint64_t epoch_ = ~std::uint64_t{0};
  std::vector<std::int64_t> order_;
};

}  // namespace starling
