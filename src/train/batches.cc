#include "train/batches.h"

#include <algorithm>
#include <numeric>

#include "base/random.h"
#include "topology/split.h"

namespace starling {

Batches::Batches(std::size_t samples, int workers, int batch, std::uint64_t seed)
    : workers_(static_cast<std::size_t>(workers)),
      global_batch_(workers_ * static_cast<std::size_t>(batch)),
      seed_(seed),
      steps_per_epoch_((samples + global_batch_ - 1) / global_batch_),
      order_(samples) {}

void Batches::shuffle_for(std::uint64_t epoch) {
  if (epoch == epoch_) return;
  epoch_ = epoch;
  std::iota(order_.begin(), order_.end(), 0);
  Random{seed_, epoch, 0x5a}.shuffle(std::span<std::int64_t>(order_));
}

Batches::Batch Batches::batch(std::uint64_t step, int rank) {
  shuffle_for(step / steps_per_epoch_);
  const std::size_t begin = static_cast<std::size_t>(step % steps_per_epoch_) * global_batch_;
  const std::size_t count = std::min(global_batch_, order_.size() - begin);
  const Range mine = part(count, workers_, static_cast<std::size_t>(rank));
  return {std::span(order_).subspan(begin + mine.begin, mine.size()), count};
}

}  // namespace starling
