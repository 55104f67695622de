// push-sum (SGP; M. Assran et al., 2019): on a directed graph nobody knows how often it is heard
// by comparison with others, so equal weights do not add up to a mean. Every worker therefore sends
// even parts of its weights *and* of a number that begins as 1 to those it tells, keeps one part,
// and adds what comes; its weights divided by its number tend to the mean of all:
//
//   z_i = x_i / number_i     x_i <- x_i - lr g(z_i)     (x, number) <- even parts of (x, number)
//
// The replica is z, which the gradient is taken at. What the optimizer changes in it is meant for x:
// where some are heard more often than others, numbers are not 1, and z moves by 1 / number of it.
#include <algorithm>
#include <vector>

#include "exchange/neighbours.h"
#include "math/vector_math.h"
#include "mixing/mixing.h"
#include "runtime/all.h"

namespace starling {

namespace {

class PushSumMixing : public Mixing {
 public:
  PushSumMixing(const MixingSettings& settings, Group group)
      : Mixing(group), neighbours_(settings.graph, group.rank()) {}

  Task<> start(std::span<const float> weights, State past) override {
    joined(weights);
    visit_state(past);
    co_return;
  }

  void visit_state(State state) override {
    Mixing::visit_state(state);
    state("number", number_);
    state("divided_by", divided_by_);
    state("before", before_);
  }

  void attend(std::span<float> weights) override {
    if (divided_by_ == 1) return;
    subtract_scaled(weights, before_, 1);
    scale(weights, 1 / divided_by_);
    add(weights, before_);
    std::ranges::copy(weights, before_.begin());
  }

  Task<> mix(std::span<float> weights, std::uint64_t round) override {
    ++report_.rounds;
    const std::span<const int> told = neighbours_.tells(round);
    heard_.clear();
    for (int rank : neighbours_.hears(round)) heard_.push_back({rank, 1});
    part_ = number_ / static_cast<float>(told.size() + 1);
    scale(weights, part_);  // the part that everybody gets
    parts_.assign(heard_.size(), 0);
    std::vector<Task<>> moves;
    for (int rank : told) moves.push_back(tell_part(rank));
    for (std::size_t i = 0; i < heard_.size(); ++i) {
      moves.push_back(hear_part(heard_[i].rank, parts_[i]));
    }
    moves.push_back(weighted_sum(group_, kMixingChannel, weights, 1, told, heard_));
    co_await all(std::move(moves));
    number_ = part_;
    for (float part : parts_) {
      number_ += part;
      report_.mixed(0);
    }
    scale(weights, 1 / number_);
  }

  void joined(std::span<const float> weights) override {
    before_.assign(weights.begin(), weights.end());
    divided_by_ = number_;
  }
  float share_of_changes() const override { return divided_by_ / number_; }
  float final_share() const override { return number_; }

 private:
  static constexpr Channel kPartChannel{1, Purpose::weights, "mixing weights"};

  Task<> tell_part(int rank) { co_await group_.send(rank, kPartChannel, object_bytes(part_)); }
  Task<> hear_part(int rank, float& part) {
    co_await group_.receive(rank, kPartChannel, object_bytes(part));
  }

  Neighbourhood neighbours_;
  float number_ = 1;
  float part_ = 0;
  float divided_by_ = 1;       // the number that made the replica of x
  std::vector<float> before_;  // the replica before the optimizer's last change
  std::vector<Heard> heard_;   // in the round that is under way, with
  std::vector<float> parts_;   // their numbers
};

}  // namespace

std::unique_ptr<Mixing> make_push_sum_mixing(const MixingSettings& settings, Group group) {
  return std::make_unique<PushSumMixing>(settings, group);
}

}  // namespace starling
