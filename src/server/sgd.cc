// SGD, with momentum v and Nesterov's look-ahead:
//
//   v <- momentum v + g       w <- w - lr v                   (momentum 0: v = g)
//                             w <- w - lr (g + momentum v)    (Nesterov)
#include <algorithm>
#include <vector>

#include "math/vector_math.h"
#include "server/optimizer.h"

namespace starling {

namespace {

class Sgd : public Optimizer {
 public:
  Sgd(const OptimizerSettings& settings, std::size_t elements)
      : lr_(settings.lr),
        momentum_(static_cast<float>(settings.momentum)),
        decay_(static_cast<float>(settings.weight_decay)),
        nesterov_(settings.kind == OptimizerSettings::Kind::nesterov),
        velocity_(settings.momentum > 0 ? elements : 0) {}

  void update(std::span<float> weights, std::span<const float> gradient, double lr_factor,
              std::span<float> copy) override {
    const auto lr = static_cast<float>(lr_ * lr_factor);
    if (velocity_.empty() && decay_ == 0) {
      copy.empty() ? subtract_scaled(weights, gradient, lr)
                   : subtract_scaled(weights, gradient, lr, copy);
      return;
    }
    const float ahead = nesterov_ ? momentum_ : 1.0f;
    const float now = nesterov_ ? 1.0f : 0.0f;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      float step = gradient[i] + decay_ * weights[i];
      if (!velocity_.empty()) {
        velocity_[i] = momentum_ * velocity_[i] + step;
        step = now * step + ahead * velocity_[i];
      }
      weights[i] -= lr * step;
    }
    if (!copy.empty()) std::ranges::copy(weights, copy.begin());
  }

  std::unique_ptr<Optimizer> copy() const override { return std::make_unique<Sgd>(*this); }
  void visit_state(State state) override {
    if (!velocity_.empty()) state("velocity", velocity_);
  }

 private:
  double lr_;
  float momentum_;
  float decay_;
  bool nesterov_;
  std::vector<float> velocity_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const OptimizerSettings& settings, std::size_t elements) {
  return std::make_unique<Sgd>(settings, elements);
}

}  // namespace starling
