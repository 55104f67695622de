// Adam: momentum m and squares v of the gradient, both corrected for having started at zero.
//
//   m <- b1 m + (1 - b1) g       v <- b2 v + (1 - b2) g^2
//   w <- w - lr m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + epsilon)
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
        decay_(static_cast<float>(settings.weight_decay)),
        means_(elements),
        squares_(elements) {}

  void update(std::span<float> weights, std::span<const float> gradient, double lr_factor,
              std::span<float> copy) override {
    constexpr double kBeta1 = 0.9, kBeta2 = 0.999;
    constexpr float kEpsilon = 1e-8f;
    ++steps_;
    const auto rate = static_cast<float>(lr_ * lr_factor / (1 - std::pow(kBeta1, steps_)));
    const auto root = static_cast<float>(std::sqrt(1 - std::pow(kBeta2, steps_)));
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const float g = gradient[i] + decay_ * weights[i];
      means_[i] = static_cast<float>(kBeta1) * means_[i] + static_cast<float>(1 - kBeta1) * g;
      squares_[i] =
          static_cast<float>(kBeta2) * squares_[i] + static_cast<float>(1 - kBeta2) * g * g;
      weights[i] -= rate * means_[i] / (std::sqrt(squares_[i]) / root + kEpsilon);
    }
    if (!copy.empty()) std::ranges::copy(weights, copy.begin());
  }

  std::unique_ptr<Optimizer> copy() const override { return std::make_unique<Adam>(*this); }

 private:
  double lr_;
  float decay_;
  std::vector<float> means_;
  std::vector<float> squares_;
  double steps_ = 0;
};

}  // namespace

std::unique_ptr<Optimizer> make_adam(const OptimizerSettings& settings, std::size_t elements) {
  return std::make_unique<Adam>(settings, elements);
}

}  // namespace starling
