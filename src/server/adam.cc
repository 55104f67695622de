// Adam: momentum m and squares v of the gradient, both corrected for having started at zero.
//
//   m <- b1 m + (1 - b1) g       v <- b2 v + (1 - b2) g^2
//   w <- w - lr m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + epsilon)
//
// Adam takes weight decay for part of the gradient; AdamW takes it from the weights first, where it
// is not divided by the root:
//
//   w <- (1 - lr decay) w
//
// A server does not know which weights are a matrix's, so all decay.
#include <algorithm>
#include <cmath>
#include <vector>

#include "server/optimizer.h"

namespace starling {

namespace {

class Adam : public Optimizer {
 public:
  Adam(const OptimizerSettings& settings, std::size_t elements)
      : lr_(settings.lr),
        beta1_(settings.beta1),
        beta2_(settings.beta2),
        decay_(settings.weight_decay),
        decoupled_(settings.kind == OptimizerSettings::Kind::adamw),
        means_(elements),
        squares_(elements) {}

  void update(std::span<float> weights, std::span<const float> gradient, double lr_factor,
              std::span<float> copy) override {
    constexpr float kEpsilon = 1e-8f;
    ++steps_;
    const auto rate = static_cast<float>(lr_ * lr_factor / (1 - std::pow(beta1_, steps_)));
    const auto root = static_cast<float>(std::sqrt(1 - std::pow(beta2_, steps_)));
    const auto keep1 = static_cast<float>(beta1_), take1 = static_cast<float>(1 - beta1_);
    const auto keep2 = static_cast<float>(beta2_), take2 = static_cast<float>(1 - beta2_);
    const auto decay = static_cast<float>(decoupled_ ? 0 : decay_);
    const auto kept = static_cast<float>(decoupled_ ? 1 - lr_ * lr_factor * decay_ : 1);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const float g = gradient[i] + decay * weights[i];
      means_[i] = keep1 * means_[i] + take1 * g;
      squares_[i] = keep2 * squares_[i] + take2 * g * g;
      weights[i] =
          kept * weights[i] - rate * means_[i] / (std::sqrt(squares_[i]) / root + kEpsilon);
    }
    if (!copy.empty()) std::ranges::copy(weights, copy.begin());
  }

  std::unique_ptr<Optimizer> copy() const override { return std::make_unique<Adam>(*this); }
  void visit_state(State state) override {
    state("means", means_);
    state("squares", squares_);
    state.in("single")("steps", steps_);
  }

 private:
  double lr_, beta1_, beta2_, decay_;
  bool decoupled_;
  std::vector<float> means_;
  std::vector<float> squares_;
  double steps_ = 0;
};

}  // namespace

std::unique_ptr<Optimizer> make_adam(const OptimizerSettings& settings, std::size_t elements) {
  return std::make_unique<Adam>(settings, elements);
}

}  // namespace starling
