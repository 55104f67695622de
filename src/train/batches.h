// Which samples each worker takes in each step. Every epoch all samples are shuffled by the seed,
// the same on all workers; step t takes the next workers x batch of them, and each worker its own
// consecutive share. So no sample is taken twice, and n workers with batches of B see what one
// worker with batches of n B sees.
//
// The last step of an epoch may have fewer samples than workers x batch: they are shared out
// evenly, and a worker may get none. It still takes part in the exchange.
//
// With shards, each worker goes through its own samples, shuffled anew whenever it begins again,
// and takes as many steps an epoch as the others, however many samples it has.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "train/shards.h"

namespace starling {

class Batches {
 public:
  Batches(std::size_t samples, int workers, int batch, std::uint64_t seed, Shards shards = {});

  std::uint64_t steps_per_epoch() const { return steps_per_epoch_; }

  // How many belong to that worker; all of them, where they are dealt out anew in every epoch.
  std::uint64_t samples_of(int rank) const {
    return shards_.empty() ? order_.size() : shards_[static_cast<std::size_t>(rank)].size();
  }

  struct Batch {
    std::span<const std::int64_t>
        indices;  // this worker's samples; valid until another epoch is asked for
    std::size_t samples_of_all = 0;  // taken by all workers together in this step
  };
  Batch batch(std::uint64_t step, int rank);
  // How many samples that batch has.
  std::size_t size_of(std::uint64_t step, int rank) const;

 private:
  void shuffle_for(std::uint64_t epoch);
  Batch batch_of_shard(std::uint64_t step, std::size_t rank);

  std::size_t workers_;
  std::size_t batch_;
  std::size_t global_batch_;
  std::uint64_t seed_;
  std::uint64_t steps_per_epoch_;
  std::uint64_t epoch_ = ~std::uint64_t{0};
  std::vector<std::int64_t> order_;

  Shards shards_;
  struct Place {
    std::size_t rank;
    std::uint64_t epoch;
    bool operator==(const Place&) const = default;
  };
  Place shuffled_{~std::size_t{0}, 0};  // whose shard is in order_, and which time
};

}  // namespace starling
