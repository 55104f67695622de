#include "strategy/progress.h"

#include <limits>
#include <numeric>

#include "base/error.h"

namespace starling {

namespace {

constexpr Channel kProgressChannel{0, Purpose::control, "telling how far it is"};

struct News {
  std::uint32_t batches = 0;
  std::uint32_t over = 0;
};

}  // namespace

Progress::Progress(Group group, std::uint64_t batches, std::uint64_t stride)
    : group_(group),
      batches_(batches),
      stride_(stride),
      done_(static_cast<std::size_t>(group.size())),
      left_(done_.size()),
      moved_(group.loop()),
      news_(group.loop()) {
  for (int rank = 0; rank < group.size(); ++rank) {
    if (rank == group.rank()) continue;
    telling_.emplace_back(tell(rank));
    hearing_.emplace_back(hear(rank));
  }
}

void Progress::did(std::uint64_t own_batches) {
  std::uint64_t& own = done_[static_cast<std::size_t>(group_.rank())];
  const bool far = own / stride_ != own_batches / stride_;
  own = own_batches;
  if (far) moved_.ring();
}

std::uint64_t Progress::done_by_all() const {
  return std::accumulate(done_.begin(), done_.end(), std::uint64_t{0});
}

void Progress::end() {
  over_ = ended_ = true;
  moved_.ring();
}

Task<> Progress::settle() {
  for (Running& telling : telling_) co_await telling;
}

std::uint64_t Progress::slowest_of(std::span<const int> ranks) const {
  std::uint64_t slowest = std::numeric_limits<std::uint64_t>::max();
  for (int rank : ranks) {
    const auto at = static_cast<std::size_t>(rank);
    if (!left_[at]) slowest = std::min(slowest, done_[at]);
  }
  return slowest;
}

// What happens while a message leaves becomes one message.
Task<> Progress::tell(int rank) {
  try {
    for (News news; news.over == 0;) {
      const std::uint64_t& own = done_[static_cast<std::size_t>(group_.rank())];
      while (!ended_ && own < news.batches + stride_) co_await moved_.rung();
      news = {static_cast<std::uint32_t>(own), ended_ ? 1u : 0u};
      co_await group_.send(rank, kProgressChannel, object_bytes(news));
    }
  } catch (const PeerLost&) {
  }
}

Task<> Progress::hear(int rank) {
  const auto at = static_cast<std::size_t>(rank);
  try {
    for (News news; news.over == 0;) {
      co_await group_.receive(rank, kProgressChannel, object_bytes(news));
      done_[at] = std::max<std::uint64_t>(done_[at], news.batches);
      over_ = over_ || news.over != 0;
      news_.ring();
    }
  } catch (const PeerLost&) {
  }
  left_[at] = true;
  news_.ring();
}

}  // namespace starling
