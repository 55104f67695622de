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
// Those who are left are a group of their own in each *generation*, which is how many have been lost:
// what was under way in an earlier one is not taken for what belongs to this one.
#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "exchange/move.h"
#include "roster/bully.h"
#include "runtime/race.h"
#include "strategy/strategy.h"

namespace starling {

namespace {

class RingLeaderStrategy : public Strategy {
 public:
  // In an elastic job it is for the next generation to repeat the step.
  RingLeaderStrategy(Group group, bool is_elastic)
      : Strategy(group), is_elastic_(is_elastic), alive_(group) {
    if (!is_elastic) group.contain_losses();
  }

  Task<> after_backward(Bucket bucket) override {
    own_ = bucket.gradients;
    co_await complete_step();
    std::copy_n(mean_.begin(), bucket.gradients.size(), bucket.gradients.begin());
    stop_vote_.decided = stop_vote_.decided || mean_.back() > 0;
  }

  // All have the same model; they part when all have completed the last step.
  Task<> finish(Replica) override {
    own_ = {};
    try {
      co_await complete_step();
    } catch (const PeerLost&) {  // it was complete, and has left
    }
  }

  StopVote* stop_vote() override { return &stop_vote_; }
  bool in_step() const override { return false; }

 private:
  static constexpr std::size_t kPieces = 16;  // adding one overlaps moving the next
  static constexpr Channel kGradients{0, Purpose::gradients, "the ring to the leader"};
  static constexpr Channel kControl{1, Purpose::control, "regrouping"};
  static constexpr Channel kElection{2, Purpose::control, "an election"};

  // own_ in, mean_ out.
  Task<> complete_step() {
    if (is_elastic_) {
      co_await regroup_and_exchange();
      co_return;
    }
    const std::uint64_t step = completed_;
    while (completed_ == step) {
      const int losses = group_.lost_count();
      try {
        Task<int> attempt = race(regroup_and_exchange(), next_loss(losses));
        co_await attempt;
      } catch (const PeerLost&) {
        if (group_.lost_count() == losses) throw;  // it left: nobody will repeat the step with us
      }
    }
  }

  Task<> next_loss(int before) {
    while (group_.lost_count() == before) co_await group_.losses().rung();
  }

  Task<> regroup_and_exchange() {
    const std::uint64_t step = completed_;
    if (leader_ < 0 || generation_ != group_.lost_count()) co_await regroup();
    if (completed_ == step) co_await exchange();
  }

  Task<> regroup() {
    generation_ = group_.lost_count();
    leader_ = -1;
    alive_ = those_left();
    Task<int> election = elect_leader(alive_, kElection);
    const int leader = co_await election;
    if (generation_ > 0) spdlog::info("rank {} leads now", alive_.in_comm(leader));

    // Who is how far.
    const int self = alive_.rank();
    std::vector<std::uint64_t> completed(static_cast<std::size_t>(alive_.size()), completed_);
    if (self == leader) {
      for (int place = 0; place < alive_.size(); ++place) {
        std::uint64_t& theirs = completed[static_cast<std::size_t>(place)];
        if (place != leader) co_await alive_.receive(place, kControl, object_bytes(theirs));
      }
      for (int place = 0; place < alive_.size(); ++place) {
        if (place != leader) co_await alive_.send(place, kControl, std::span(completed));
      }
    } else {
      co_await alive_.send(leader, kControl, object_bytes(completed_));
      co_await alive_.receive(leader, kControl, std::span(completed));
    }
    const auto newest = std::ranges::max_element(completed);
    const auto source = static_cast<int>(newest - completed.begin());
    if (self == source) {
      for (int place = 0; place < alive_.size(); ++place) {
        if (completed[static_cast<std::size_t>(place)] == *newest) continue;
        co_await move(alive_, kGradients, Outgoing{place, std::span<const float>(mean_)});
      }
    } else if (completed_ < *newest) {
      mean_.resize(own_.size() + 1);
      co_await move(alive_, kGradients, Incoming{source, mean_});
      ++completed_;
    }
    leader_ = leader;
  }

  Group those_left() const {
    std::vector<int> ranks;
    for (int place = 0; place < group_.size(); ++place) {
      if (!group_.is_lost(place)) ranks.push_back(group_.in_comm(place));
    }
    const auto first = static_cast<std::uint32_t>(GroupNumber::generations);
    return Group(group_.comm(), ranks, first + static_cast<std::uint32_t>(generation_));
  }

  // Around the ring to the leader, adding; and around once more, copying.
  Task<> exchange() {
    work_.resize(own_.size() + 1);
    std::ranges::copy(own_, work_.begin());
    work_.back() = stop_vote_.wanted ? 1.0f : 0.0f;
    const int self = alive_.rank();
    const bool first = self == alive_.ring(leader_ + 1);  // behind the leader
    const bool leads = self == leader_;
    const bool last = self == alive_.ring(leader_ - 1);  // before the leader

    co_await pass_on(!first, !leads, combiner(Element::f32, Reduction::sum));
    if (leads) conclude(work_, Reduction::mean, alive_.size());
    co_await pass_on(!leads, !last, nullptr);
    mean_.swap(work_);
    ++completed_;
  }

  // Each piece comes from the rank before us and goes to the one behind while the next one comes.
  Task<> pass_on(bool comes, bool goes, Combine combine) {
    if (alive_.size() == 1) co_return;
    const int previous = alive_.ring(alive_.rank() - 1);
    const int next = alive_.ring(alive_.rank() + 1);
    const auto piece = [&](std::size_t i) {
      const Range range = part(work_.size(), kPieces, i);
      return Vector(work_).subspan(range.begin, range.size());
    };
    for (std::size_t i = 0; i <= kPieces; ++i) {
      const Vector out = i > 0 && goes ? piece(i - 1) : Vector();
      const Vector in = i < kPieces && comes ? piece(i) : Vector();
      co_await move(alive_, kGradients, {next, out}, {previous, in, combine});
    }
  }

  bool is_elastic_;
  int generation_ = 0;
  Group alive_;
  int leader_ = -1;  // its place among them
  std::uint64_t completed_ = 0;
  std::span<const float> own_;  // gradients, as they must be if the step is repeated
  // The sum on its way, and the last step's mean for whoever lacks it. One more element carries the
  // wish to stop to all in the same step.
  std::vector<float> work_, mean_;
  StopVote stop_vote_;
};

}  // namespace

std::unique_ptr<Strategy> make_ring_leader(const Settings& settings, Group group, Workload) {
  return std::make_unique<RingLeaderStrategy>(group, settings.elastic.on);
}

}  // namespace starling
