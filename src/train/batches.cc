#include "train/batches.h"

#include <algorithm>
#include <numeric>

#include "base/random.h"
#include "base/range.h"

namespace starling {

Batches::Batches(std::size_t samples, int workers, int batch, std::uint64_t seed, Shards shards)
    : workers_(static_cast<std::size_t>(workers)),
      batch_(static_cast<std::size_t>(batch)),
      global_batch_(workers_ * static_cast<std::size_t>(batch)),
      seed_(seed),
      steps_per_epoch_((samples + global_batch_ - 1) / global_batch_),
      order_(samples),
      shards_(std::move(shards)) {}

void Batches::shuffle_for(std::uint64_t epoch) {
  if (epoch == epoch_) return;
  epoch_ = epoch;
  std::iota(order_.begin(), order_.end(), 0);
  Random{seed_, epoch, 0x5a}.shuffle(std::span<std::int64_t>(order_));
}

Batches::Batch Batches::batch_of_shard(std::uint64_t step, std::size_t rank) {
  const std::vector<std::int64_t>& shard = shards_[rank];
  if (shard.empty()) return {};
  const std::uint64_t steps = (shard.size() + batch_ - 1) / batch_;
  const Place place{rank, step / steps};
  if (place != shuffled_) {
    shuffled_ = place;
    order_ = shard;
    Random{seed_, place.epoch, 0x5a, rank}.shuffle(std::span<std::int64_t>(order_));
  }
  const std::size_t begin = static_cast<std::size_t>(step % steps) * batch_;
  const std::size_t count = std::min(batch_, order_.size() - begin);
  return {std::span(order_).subspan(begin, count), count * workers_};
}

Batches::Batch Batches::batch(std::uint64_t step, int rank) {
  if (!shards_.empty()) return batch_of_shard(step, static_cast<std::size_t>(rank));
  shuffle_for(step / steps_per_epoch_);
  const std::size_t begin = static_cast<std::size_t>(step % steps_per_epoch_) * global_batch_;
  const std::size_t count = std::min(global_batch_, order_.size() - begin);
  const Range mine = part(count, workers_, static_cast<std::size_t>(rank));
  return {std::span(order_).subspan(begin + mine.begin, mine.size()), count};
}

std::size_t Batches::size_of(std::uint64_t step, int rank) const {
  const std::size_t begin = static_cast<std::size_t>(step % steps_per_epoch_) * global_batch_;
  const std::size_t count = std::min(global_batch_, order_.size() - begin);
  return part(count, workers_, static_cast<std::size_t>(rank)).size();
}

}  // namespace starling
