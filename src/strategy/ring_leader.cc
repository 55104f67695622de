// ring-leader: gradients travel around the ring, each worker adding its own, to an elected leader;
// the leader forms the mean, which travels around the same way. The leader is elected by the bully
// algorithm, and any worker may be lost at any time:
//
//   A. Who sees a loss leaves the exchange, whatever its state. As every worker is connected to
//      every other, all see it.
//   B. The survivors elect a leader, and tell it how many steps they have completed.
//   C. The leader answers with the most that anybody has. A worker that lacks the last one's mean
//      gets it from one that has it: nobody can be further behind, as no step ends without all.
//   D. If nobody had it, the step is repeated by those who are left.
//
// Channels are numbered by the *generation*, which is how many have been lost: what was under way
// in an earlier one is not taken for what belongs to this one.
#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "exchange/move.h"
#include "math/vector_math.h"
#include "roster/bully.h"
#include "runtime/race.h"
#include "strategy/strategy.h"

namespace starling {

namespace {

class RingLeaderStrategy : public Strategy {
 public:
  explicit RingLeaderStrategy(Comm& comm) : Strategy(comm) { comm.contain_losses(comm.size()); }

  Task<> after_backward(Bucket bucket) override {
    own_ = bucket.gradients;
    co_await complete_step();
    std::copy_n(mean_.begin(), bucket.gradients.size(), bucket.gradients.begin());
    stopped_ = stopped_ || mean_.back() > 0;
  }

  // All have the same model; they part when all have completed the last step.
  Task<> finish(Replica) override {
    own_ = {};
    try {
      co_await complete_step();
    } catch (const PeerLost&) {  // it was complete, and has left
    }
  }

  Task<std::uint64_t> next_batch(std::optional<std::uint64_t> before) override {
    Task<std::uint64_t> next = Strategy::next_batch(before);
    const std::uint64_t batch = co_await next;
    co_return stopped_ ? kNoBatch : batch;
  }
  Task<> stop() override {
    wants_stop_ = true;
    co_return;
  }
  bool in_step() const override { return false; }

 private:
  static constexpr std::uint32_t kFirstChannel = 1 << 19;
  static constexpr std::size_t kPieces = 16;  // adding one overlaps moving the next

  Channel channel(std::uint32_t use, Purpose purpose, const char* operation) const {
    return {kFirstChannel + 4 * static_cast<std::uint32_t>(generation_) + use, purpose, operation};
  }
  Channel gradients_channel() const {
    return channel(0, Purpose::gradients, "the ring to the leader");
  }
  Channel control_channel() const { return channel(1, Purpose::control, "regrouping"); }
  Channel election_channel() const { return channel(2, Purpose::control, "an election"); }

  // own_ in, mean_ out.
  Task<> complete_step() {
    const std::uint64_t step = completed_;
    while (completed_ == step) {
      const int losses = comm_.lost_count();
      try {
        Task<int> attempt = race(regroup_and_exchange(), next_loss(losses));
        co_await attempt;
      } catch (const PeerLost&) {
        if (comm_.lost_count() == losses) throw;  // it left: nobody will repeat the step with us
      }
    }
  }

  Task<> next_loss(int before) {
    while (comm_.lost_count() == before) co_await comm_.losses().rung();
  }

  Task<> regroup_and_exchange() {
    const std::uint64_t step = completed_;
    if (leader_ < 0 || generation_ != comm_.lost_count()) co_await regroup();
    if (completed_ == step) co_await exchange();
  }

  Task<> regroup() {
    generation_ = comm_.lost_count();
    leader_ = -1;
    alive_.clear();
    for (int rank = 0; rank < comm_.size(); ++rank) {
      if (!comm_.is_lost(rank)) alive_.push_back(rank);
    }
    Task<int> election = elect_leader(comm_, election_channel(), alive_);
    const int leader = co_await election;
    if (generation_ > 0) spdlog::info("rank {} leads now", leader);

    // Who is how far.
    const auto place = [this](int rank) { return std::ranges::find(alive_, rank); };
    std::vector<std::uint64_t> completed(alive_.size(), completed_);
    if (comm_.rank() == leader) {
      for (std::size_t i = 0; i < alive_.size(); ++i) {
        if (alive_[i] == leader) continue;
        co_await comm_.receive(alive_[i], control_channel(), object_bytes(completed[i]));
      }
      for (int rank : alive_) {
        if (rank == leader) continue;
        co_await comm_.send(rank, control_channel(), std::span(completed));
      }
    } else {
      co_await comm_.send(leader, control_channel(), object_bytes(completed_));
      co_await comm_.receive(leader, control_channel(), std::span(completed));
    }
    const auto newest = std::ranges::max_element(completed);
    const int source = alive_[static_cast<std::size_t>(newest - completed.begin())];
    if (comm_.rank() == source) {
      for (int rank : alive_) {
        if (completed[static_cast<std::size_t>(place(rank) - alive_.begin())] == *newest) continue;
        co_await move(comm_, gradients_channel(), Outgoing{rank, mean_});
      }
    } else if (completed_ < *newest) {
      mean_.resize(own_.size() + 1);
      co_await move(comm_, gradients_channel(), Incoming{source, mean_});
      ++completed_;
    }
    leader_ = leader;
  }

  // Around the ring to the leader, adding; and around once more, copying.
  Task<> exchange() {
    work_.resize(own_.size() + 1);
    std::ranges::copy(own_, work_.begin());
    work_.back() = wants_stop_ ? 1.0f : 0.0f;
    const auto count = static_cast<int>(alive_.size());
    const auto at = [&](int place) {
      return alive_[static_cast<std::size_t>((place % count + count) % count)];
    };
    const auto leader = static_cast<int>(std::ranges::find(alive_, leader_) - alive_.begin());
    const auto self = static_cast<int>(std::ranges::find(alive_, comm_.rank()) - alive_.begin());
    const bool first = self == (leader + 1) % count;  // behind the leader
    const bool leads = self == leader;
    const bool last = self == (leader - 1 + count) % count;  // before the leader

    co_await pass_on(first ? -1 : at(self - 1), leads ? -1 : at(self + 1), add);
    if (leads) scale(work_, 1.0f / static_cast<float>(count));
    co_await pass_on(leads ? -1 : at(self - 1), last ? -1 : at(self + 1), nullptr);
    mean_.swap(work_);
    ++completed_;
  }

  // Sends each piece on while the next one comes in.
  Task<> pass_on(int from, int to, Combine combine) {
    const std::span<float> nothing;
    const auto piece = [&](std::size_t i) {
      const Range range = part(work_.size(), kPieces, i);
      return std::span<float>(work_).subspan(range.begin, range.size());
    };
    if (alive_.size() == 1) co_return;
    for (std::size_t i = 0; i <= kPieces; ++i) {
      const std::span<float> out = i > 0 && to >= 0 ? piece(i - 1) : nothing;
      const std::span<float> in = i < kPieces && from >= 0 ? piece(i) : nothing;
      co_await move(comm_, gradients_channel(), {to, out}, {from, in, combine});
    }
  }

  int generation_ = 0;
  int leader_ = -1;
  std::vector<int> alive_;
  std::uint64_t completed_ = 0;
  std::span<const float> own_;  // gradients, as they must be if the step is repeated
  // The sum on its way, and the last step's mean for whoever lacks it. One more element carries the
  // wish to stop to all in the same step.
  std::vector<float> work_, mean_;
  bool wants_stop_ = false;
  bool stopped_ = false;
};

}  // namespace

std::unique_ptr<Strategy> make_ring_leader(const Settings&, Comm& comm) {
  return std::make_unique<RingLeaderStrategy>(comm);
}

}  // namespace starling
