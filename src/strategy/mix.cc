// mix: every worker trains its own model and mixes weights with others. Who (topology/graph.h), how
// (mixing/mixing.h) and when (strategy/schedule.h) are chosen apart:
//
//   sync     all mix in the same rounds and wait for each other
//   overlap  the same, but a round goes on while the next steps are computed; what they have
//            changed is added to what it yields
//   async    nobody waits; whoever has done its share of the batches helps with what is left
//   bounded  async, but nobody runs further ahead of its neighbours than the bound
#include "exchange/allreduce.h"
#include "exchange/collectives.h"
#include "exchange/survivors.h"
#include "math/vector_math.h"
#include "mixing/half_mean.h"
#include "strategy/mix_plan.h"
#include "strategy/progress.h"
#include "strategy/strategy.h"

namespace starling {

namespace {

class MixStrategy : public Strategy {
 public:
  MixStrategy(const Settings& settings, Group group, const Workload& workload)
      : Strategy(group),
        settings_(settings),
        in_step_(mixes_in_step(settings)),
        mixing_(make_mixing(mixing_settings(settings, workload.folds),
                            apart(group, GroupNumber::mixing), workload.own_samples)),
        schedule_(schedule_options(settings), coin()) {
    if (!in_step_) {
      progress_.emplace(apart(group, GroupNumber::progress), workload.batches,
                        progress_stride(workload.batches));
    }
    if (!is_bounded()) return;
    const Neighbourhood all(graph_settings(settings), group.rank());
    for (std::uint64_t round = 0; round < all.rounds(); ++round) {
      const auto heard = all.hears(round);
      neighbours_.insert(neighbours_.end(), heard.begin(), heard.end());
    }
  }

  Task<> start(Replica replica, State past) override {
    co_await Strategy::start(replica, past);
    visit_own_state(past, replica.weights.size());
    co_await mixing_->start(replica.weights, past.in("mixing"));
    if (round_is_over_) under_way_.emplace(nothing());
    tell_progress();
    mixed_at_ = group_.loop().now();
  }

  // Who is left goes on with its own model, unless the rule counts on all having the same.
  Task<> resume(Replica replica) override {
    const MixingSettings mixing = mixing_settings(settings_);
    if (mixing_rule(mixing.rule).starts_alike || mixing.codec.kind != CodecSettings::Kind::raw) {
      co_await allreduce(find_allreduce("auto"), group_, weights_channel(), replica.weights,
                         Reduction::mean);
    }
    co_await mixing_->start(replica.weights);
    mixed_at_ = group_.loop().now();
  }

  // A round that goes on while others compute is waited for, and joined when it would have been.
  Task<> pause() override {
    if (!under_way_) co_return;
    Running& running = *under_way_;
    co_await running;
  }

  void visit_state(State state) override {
    visit_own_state(state, mixed_.size());
    mixing_->visit_state(state.in("mixing"));
  }
  std::span<const float> final_weights(std::span<const float> own) const override {
    return mixing_->final_weights(own);
  }
  float final_share() const override { return mixing_->final_share(); }

  Task<> after_backward(Bucket bucket) override {
    mixing_->bend(bucket.weights, bucket.gradients, bucket.range.begin);
    co_return;
  }

  Task<> after_update(Replica replica) override {
    ++steps_;
    mixing_->set_clock(steps_);
    mixing_->attend(replica.weights);
    tell_progress();
    if (schedule_.due()) co_await round(replica);
    if (is_bounded()) co_await until_others_are_near();
  }

  Task<> finish(Replica replica) override {
    if (under_way_) co_await end_round(replica.weights);
    if (progress_) progress_->end();  // before we wait for others: they may be waiting for us
    co_await mixing_->settle(replica.weights);
    mixing_->report().final_share = static_cast<double>(mixing_->final_share());
    if (progress_) {
      co_await progress_->settle();
      co_await mean_of_survivors(apart(group_, GroupNumber::survivors), replica.weights,
                                 mixing_->final_share());
    } else if (settings_.mix.codec.kind != CodecSettings::Kind::raw) {
      Task<bool> looking = all_alike(replica.weights);
      const bool alike = co_await looking;
      if (!alike) co_await half_mean_of_all(group_, weights_channel(), replica.weights);
    } else {
      if (mixing_->final_share() != 1) scale(replica.weights, mixing_->final_share());
      co_await allreduce(find_allreduce("auto"), group_, weights_channel(), replica.weights,
                         Reduction::mean);
    }
  }

  Progress* progress() override { return progress_ ? &*progress_ : nullptr; }
  bool in_step() const override { return in_step_; }
  bool rests() const override { return !mixing_->takes_part(round_); }
  const MixReport* mix_report() const override { return &mixing_->report(); }

 private:
  bool is_bounded() const { return settings_.schedule.kind == ScheduleSettings::Kind::bounded; }

  // Rounds are counted alike by all who go in step.
  void visit_own_state(State state, std::size_t elements) {
    const State of_all = in_step_ ? state.shared() : state;
    of_all("steps", steps_);
    of_all("round", round_);
    schedule_.visit_state(of_all.in("schedule"));
    round_is_over_ = under_way_.has_value();
    state("round_is_over", round_is_over_);
    if (!round_is_over_) return;
    before_.resize(elements);
    mixed_.resize(elements);
    state("before", before_);
    state("mixed", mixed_);
  }
  static Task<> nothing() { co_return; }

  Random coin() const {
    const auto seed = static_cast<std::uint64_t>(settings_.seed);
    return in_step_ ? Random{seed, 0xc014}
                    : Random{seed, 0xc014, static_cast<std::uint64_t>(group_.rank())};
  }

  std::uint64_t batches_per_step() const {
    return static_cast<std::uint64_t>(settings_.backward_passes);
  }

  void tell_progress() {
    if (!progress_) return;
    progress_->did(steps_ * batches_per_step());
  }

  // Often enough that they end together, give or take a hundredth, and within the bound.
  std::uint64_t progress_stride(std::uint64_t batches) const {
    std::uint64_t stride = batches / static_cast<std::uint64_t>(group_.size()) / 100;
    if (is_bounded()) {
      const auto bound =
          static_cast<std::uint64_t>(settings_.schedule.ahead_bound) * batches_per_step();
      stride = std::min(stride, bound / 2);
    }
    return std::max<std::uint64_t>(1, stride);
  }

  Task<> round(Replica replica) {
    const std::span<float> weights = replica.weights;
    const Time begin = group_.loop().now();
    if (settings_.schedule.overlap) {
      if (under_way_) co_await end_round(weights);
      before_.assign(weights.begin(), weights.end());
      mixed_ = before_;
      under_way_.emplace(mixing_->mix(mixed_, round_++));
    } else if (in_step_ && group_.size() > 1) {
      co_await whole_or_not_at_all(replica);
      mixing_->joined(weights);
    } else {
      co_await mixing_->mix(weights, round_++);
      mixing_->joined(weights);
    }
    if (schedule_.adapts()) co_await adapt(begin);
    mixed_at_ = group_.loop().now();
  }

  // A round that is cut short would leave a sum of some workers' models, or half a mean, and the
  // worker's model may be the last that there is. It is kept where the gradients were, which have
  // done their work.
  Task<> whole_or_not_at_all(Replica replica) {
    const std::span<float> parameters = replica.weights.first(replica.gradients.size());
    const std::span<float> buffers = replica.weights.subspan(replica.gradients.size());
    std::ranges::copy(parameters, replica.gradients.begin());
    before_.assign(buffers.begin(), buffers.end());
    try {
      co_await mixing_->mix(replica.weights, round_++);
    } catch (...) {
      std::ranges::copy(replica.gradients, parameters.begin());
      std::ranges::copy(before_, buffers.begin());
      throw;
    }
  }

  Task<> end_round(std::span<float> weights) {
    Running& running = *under_way_;
    co_await running;
    under_way_.reset();
    subtract_scaled(weights, before_, 1);
    scale(weights, mixing_->share_of_changes());
    add(weights, mixed_);
    mixing_->joined(weights);
  }

  // Those who wait for each other need the same period: rank 0's.
  Task<> adapt(Time begin) {
    std::uint64_t period = schedule_.better_period(begin - mixed_at_, group_.loop().now() - begin);
    if (in_step_) {
      const Channel channel{weights_channel().id, Purpose::control, "choosing the period"};
      co_await broadcast(group_, channel, object_bytes(period), 0);
    }
    schedule_.set_period(period);
  }

  Task<> until_others_are_near() {
    const auto bound = static_cast<std::uint64_t>(settings_.schedule.ahead_bound);
    while (!progress_->over()) {
      const std::uint64_t slowest = progress_->slowest_of(neighbours_) / batches_per_step();
      if (steps_ <= slowest || steps_ - slowest <= bound) co_return;
      co_await progress_->news().rung();
    }
  }

  Settings settings_;
  bool in_step_;
  std::unique_ptr<Mixing> mixing_;
  Schedule schedule_;
  std::vector<int> neighbours_;  // whom we may not be too far ahead of
  std::optional<Progress> progress_;
  std::uint64_t steps_ = 0;
  std::uint64_t round_ = 0;
  Time mixed_at_{0};

  std::vector<float> before_, mixed_;  // of the round that is under way
  std::optional<Running> under_way_;
  bool round_is_over_ = false;  // in a snapshot: it has been waited for, and not been joined
};

}  // namespace

std::unique_ptr<Strategy> make_mix(const Settings& settings, Group group, Workload workload) {
  return std::make_unique<MixStrategy>(settings, group, workload);
}

}  // namespace starling
