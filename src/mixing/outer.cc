// outer (DiLoCo; A. Douillard et al., 2023): what the workers have learned since the last round is
// taken for a gradient. Their mean change goes to an outer optimizer, SGD with Nesterov's momentum,
// and all go on from where that has stepped to:
//
//   change <- base - mean(w_i)     velocity <- momentum velocity + change
//   base <- base - lr (change + momentum velocity)     w_i <- base
#include <algorithm>
#include <vector>

#include "math/vector_math.h"
#include "mixing/mixing.h"

namespace starling {

namespace {

class OuterMixing : public Mixing {
 public:
  OuterMixing(const MixingSettings& settings, Group group)
      : Mixing(group),
        mean_(make_mean_mixing(settings, group)),
        lr_(static_cast<float>(settings.outer_lr)),
        momentum_(static_cast<float>(settings.outer_momentum)) {}

  Task<> start(std::span<const float> weights) override {
    base_.assign(weights.begin(), weights.end());
    velocity_.assign(weights.size(), 0);
    co_await mean_->start(weights);
  }

  Task<> mix(std::span<float> weights, std::uint64_t round) override {
    co_await mean_->mix(weights, round);
    report_ = mean_->report();
    scale(weights, -1);  // what was the mean becomes the change
    add(weights, base_);
    scale(velocity_, momentum_);
    add(velocity_, weights);
    subtract_scaled(base_, weights, lr_);
    subtract_scaled(base_, velocity_, lr_ * momentum_);
    std::ranges::copy(base_, weights.begin());
  }

 private:
  std::unique_ptr<Mixing> mean_;
  float lr_, momentum_;
  std::vector<float> base_, velocity_;
};

}  // namespace

std::unique_ptr<Mixing> make_outer_mixing(const MixingSettings& settings, Group group) {
  return std::make_unique<OuterMixing>(settings, group);
}

}  // namespace starling
