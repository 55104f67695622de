// Adagrad: every weight has a learning rate of its own, which shrinks with the gradients it has
// seen.
//
//   s <- s + g^2       w <- w - lr g / (sqrt(s) + epsilon)
#include <algorithm>
#include <cmath>
#include <vector>

#include "server/optimizer.h"

namespace starling {

namespace {

class Adagrad : public Optimizer {
 public:
  Adagrad(const OptimizerSettings& settings, std::size_t elements)
      : lr_(settings.lr),
        decay_(static_cast<float>(settings.weight_decay)),
        squares_(elements, static_cast<float>(kAdagradStart)) {}

  void update(std::span<float> weights, std::span<const float> gradient, double lr_factor,
              std::span<float> copy) override {
    constexpr float kEpsilon = 1e-10f;
    const auto lr = static_cast<float>(lr_ * lr_factor);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const float g = gradient[i] + decay_ * weights[i];
      squares_[i] += g * g;
      weights[i] -= lr * g / (std::sqrt(squares_[i]) + kEpsilon);
    }
    if (!copy.empty()) std::ranges::copy(weights, copy.begin());
  }

  std::unique_ptr<Optimizer> copy() const override { return std::make_unique<Adagrad>(*this); }
  void visit_state(State state) override { state("squares", squares_); }

 private:
  double lr_;
  float decay_;
  std::vector<float> squares_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adagrad(const OptimizerSettings& settings, std::size_t elements) {
  return std::make_unique<Adagrad>(settings, elements);
}

}  // namespace starling
