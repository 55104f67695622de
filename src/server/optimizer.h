// The optimizers as a server runs them: on plain spans, each beside the weights it updates. They
// are libtorch's, number by number (tests/train/server_optimizer_test.cc).
#pragma once

#include <memory>
#include <span>

namespace starling {

// Where Adagrad's sum of squares begins, as in TensorFlow: from zero, its first step moves every
// weight by the whole learning rate, however small the gradient.
inline constexpr double kAdagradStart = 0.1;

struct OptimizerSettings {
  enum class Kind { sgd, nesterov, adagrad, adam };

  Kind kind = Kind::sgd;
  double lr = 0.1;
  double momentum = 0;  // sgd and nesterov
  double weight_decay = 0;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // One step down the gradient, with the learning rate times `lr_factor`. `copy`, if it is not
  // empty, gets the new weights as well; it may be the gradient's memory.
  virtual void update(std::span<float> weights, std::span<const float> gradient,
                      double lr_factor = 1, std::span<float> copy = {}) = 0;
  // With all of its state: to try an update without making it, or to hand a block on.
  virtual std::unique_ptr<Optimizer> copy() const = 0;
};

std::unique_ptr<Optimizer> make_server_optimizer(const OptimizerSettings& settings,
                                                 std::size_t elements);

// One function an optimizer, each in the file of its name.
std::unique_ptr<Optimizer> make_sgd(const OptimizerSettings& settings, std::size_t elements);
std::unique_ptr<Optimizer> make_adagrad(const OptimizerSettings& settings, std::size_t elements);
std::unique_ptr<Optimizer> make_adam(const OptimizerSettings& settings, std::size_t elements);

}  // namespace starling
