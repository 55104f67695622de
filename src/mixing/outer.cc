// outer (DiLoCo; A. Douillard et al., 2023): what the workers have learned since the last round is
// taken for a gradient. Their mean change goes to an outer optimizer, SGD with Nesterov's momentum,
// and all go on from where that has stepped to:
//
//   change <- base - mean(w_i)     velocity <- momentum velocity + change
//   base <- base - lr (change + momentum velocity)     w_i <- base
//
// With a codec, the codes of base - w_i go over the wire (exchange/coded_allreduce.h). The base is
// the same everywhere to the bit, so nothing else ever has to. At the end all take the mean of what
// they have learned since the last round and of what all codes have left out, in bytes: nothing comes
// after it to make good what a coarser code would lose.
//
// Where a round goes on while the next steps are computed (schedule overlap), their changes are
// added to the new base, and are what the next round is about: each change is averaged once, one
// period late.
#include <algorithm>
#include <optional>
#include <vector>

#include "exchange/coded_allreduce.h"
#include "math/vector_math.h"
#include "mixing/mixing.h"

namespace starling {

namespace {

class OuterMixing : public Mixing {
 public:
  OuterMixing(const MixingSettings& settings, Group group)
      : Mixing(group),
        settings_(settings),
        mean_(make_mean_mixing(settings, group)),
        lr_(static_cast<float>(settings.outer_lr)),
        momentum_(static_cast<float>(settings.outer_momentum)) {}

  Task<> start(std::span<const float> weights, State past) override {
    base_.assign(weights.begin(), weights.end());
    velocity_.assign(weights.size(), 0);
    if (settings_.codec.kind != CodecSettings::Kind::raw) {
      coded_.emplace(group_, settings_.codec, weights.size(),
                     CodecStream{settings_.seed, settings_.folds});
    }
    visit_state(past);
    co_await mean_->start(weights);
  }

  // Base and velocity are everybody's.
  void visit_state(State state) override {
    Mixing::visit_state(state);
    state.shared()("base", base_);
    state.shared()("velocity", velocity_);
    mean_->visit_state(state.in("mean"));
    if (coded_) coded_->visit_state(state.in("coded"));
  }

  Task<> mix(std::span<float> weights, std::uint64_t round) override {
    co_await mean_change(weights, round);
    scale(velocity_, momentum_);
    add(velocity_, weights);
    subtract_scaled(base_, weights, lr_);
    subtract_scaled(base_, velocity_, lr_ * momentum_);
    std::ranges::copy(base_, weights.begin());
  }

  Task<> settle(std::span<float> weights) override {
    if (!coded_) co_return;
    to_change(weights);
    coded_->add_left_out(weights);
    CodedAllreduce last(group_, codec_of_last_round(settings_.codec), weights.size(),
                        {settings_.seed, settings_.folds});
    co_await last.mean(kMixingChannel, weights);
    subtract_scaled(base_, weights, 1);
    std::ranges::copy(base_, weights.begin());
  }

 private:
  // Weights become the change: by how much the base is ahead of the workers' mean.
  Task<> mean_change(std::span<float> weights, std::uint64_t round) {
    if (!coded_) {
      co_await mean_->mix(weights, round);
      report_ = mean_->report();
    }
    to_change(weights);
    if (coded_) {
      ++report_.rounds;
      for (int other = 1; other < group_.size(); ++other) report_.mixed(0);
      co_await coded_->mean(kMixingChannel, weights);
    }
  }

  void to_change(std::span<float> weights) const {
    scale(weights, -1);
    add(weights, base_);
  }

  MixingSettings settings_;
  std::unique_ptr<Mixing> mean_;
  std::optional<CodedAllreduce> coded_;
  float lr_, momentum_;
  std::vector<float> base_, velocity_;
};

}  // namespace

CodecSettings codec_of_last_round(const CodecSettings& codec) {
  if (codec.kind == CodecSettings::Kind::half || codec.kind == CodecSettings::Kind::bfloat) {
    return codec;  // fine enough
  }
  return {.kind = CodecSettings::Kind::quantized, .levels = kMostLevels, .entropy = codec.entropy};
}

std::unique_ptr<Mixing> make_outer_mixing(const MixingSettings& settings, Group group) {
  return std::make_unique<OuterMixing>(settings, group);
}

}  // namespace starling
