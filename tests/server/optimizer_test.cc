// The optimizers beside their formulas in double precision, and what a server asks of them besides.
// tests/train compares them with libtorch's.
#include "server/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace starling {
namespace {

using Method = OptimizerSettings::Kind;

constexpr std::size_t kFewElements = 5;

std::vector<OptimizerSettings> all_settings() {
  std::vector<OptimizerSettings> all;
  for (const Method kind : {Method::sgd, Method::nesterov, Method::adagrad, Method::adam}) {
    for (const double momentum : {0.0, 0.9}) {
      if ((kind == Method::nesterov) != (momentum > 0) && kind != Method::sgd) continue;
      for (const double decay : {0.0, 0.01}) all.push_back({kind, 0.1, momentum, decay});
    }
  }
  return all;
}

std::vector<float> gradient_of(int step) {
  std::vector<float> gradient(kFewElements);
  for (std::size_t i = 0; i < kFewElements; ++i) {
    gradient[i] = std::sin(static_cast<float>(step) * 2.0f + static_cast<float>(i));
  }
  return gradient;
}

// One weight, by the book.
struct Reference {
  const OptimizerSettings& settings;
  double w, v = 0, s = settings.kind == Method::adagrad ? kAdagradStart : 0;
  int steps = 0;

  void update(double gradient, double factor) {
    const double g = gradient + settings.weight_decay * w;
    const double lr = settings.lr * factor;
    ++steps;
    if (settings.kind == Method::adagrad) {
      s += g * g;
      w -= lr * g / (std::sqrt(s) + 1e-10);
    } else if (settings.kind == Method::adam) {
      v = 0.9 * v + 0.1 * g;
      s = 0.999 * s + 0.001 * g * g;
      w -= lr * v / (1 - std::pow(0.9, steps)) /
           (std::sqrt(s / (1 - std::pow(0.999, steps))) + 1e-8);
    } else {
      v = settings.momentum * v + g;
      w -= lr * (settings.kind == Method::nesterov ? g + settings.momentum * v : v);
    }
  }
};

TEST(Optimizer, FollowsItsFormula) {
  for (const OptimizerSettings& settings : all_settings()) {
    const auto optimizer = make_server_optimizer(settings, kFewElements);
    std::vector<float> weights(kFewElements, 1.0f);
    std::vector<Reference> expected(kFewElements, Reference{settings, 1.0});
    for (int step = 0; step < 6; ++step) {
      const double factor = step % 2 == 0 ? 1 : 0.25;
      const std::vector<float> gradient = gradient_of(step);
      optimizer->update(weights, gradient, factor);
      for (std::size_t i = 0; i < kFewElements; ++i) {
        expected[i].update(static_cast<double>(gradient[i]), factor);
        EXPECT_NEAR(weights[i], expected[i].w, 1e-5)
            << static_cast<int>(settings.kind) << " step " << step << " element " << i;
      }
    }
  }
}

TEST(Optimizer, LeavesTheNewWeightsInTheCopyEvenIfThatIsTheGradient) {
  for (const OptimizerSettings& settings : all_settings()) {
    const auto plain = make_server_optimizer(settings, kFewElements);
    const auto copying = make_server_optimizer(settings, kFewElements);
    std::vector<float> expected(kFewElements, 1.0f), weights = expected;
    for (int step = 0; step < 3; ++step) {
      std::vector<float> gradient = gradient_of(step);
      plain->update(expected, gradient);
      copying->update(weights, gradient, 1, gradient);
      for (std::size_t i = 0; i < kFewElements; ++i) {
        EXPECT_FLOAT_EQ(weights[i], expected[i]);
        EXPECT_EQ(gradient[i], weights[i]);
      }
    }
  }
}

TEST(Optimizer, ACopyHasAllOfItsStateAndNoneInCommon) {
  for (const OptimizerSettings& settings : all_settings()) {
    const auto original = make_server_optimizer(settings, kFewElements);
    std::vector<float> weights(kFewElements, 1.0f);
    for (int step = 0; step < 3; ++step) original->update(weights, gradient_of(step));
    const auto copy = original->copy();
    std::vector<float> others = weights;
    for (int step = 3; step < 6; ++step) copy->update(others, gradient_of(step));
    for (int step = 3; step < 6; ++step) original->update(weights, gradient_of(step));
    EXPECT_EQ(weights, others);
  }
}

}  // namespace
}  // namespace starling
