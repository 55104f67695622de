// The optimizers as a server runs them: on plain spans, each beside the weights it updates. They
// are libtorch's, number by number (tests/train/server_optimizer_test.cc).
#pragma once

#include <memory>
#include <span>

#include "base/names.h"
#include "base/setting.h"
#include "base/state.h"

namespace starling {

// Where Adagrad's sum of squares begins, as in TensorFlow: from zero, its first step moves every
// weight by the whole learning rate, however small the gradient.
inline constexpr double kAdagradStart = 0.1;

struct OptimizerSettings {
  enum class Kind { sgd, nesterov, adagrad, adam, adamw };
  friend constexpr Names<5> names_of(Kind) {
    return {"optimizer", {"sgd", "nesterov", "adagrad", "adam", "adamw"}};
  }

  Kind kind = Kind::sgd;
  double lr = 0.1;
  double momentum = 0;  // sgd and nesterov
  double weight_decay = 0;
  double beta1 = 0.9, beta2 = 0.999;  // adam and adamw
  double clip = 0;

  template <class Self, class Visitor>
  static void visit(Self& s, Visitor&& visit) {
    const bool takes_momentum = s.kind == Kind::sgd || s.kind == Kind::nesterov;
    visit({"optimizer", Section::learning, names_listed<Kind>(" or ")}, s.kind);
    visit({"lr", Section::learning, "learning rate"}, s.lr, 0.0, 1e6);
    visit({"momentum",
           Section::learning,
           "sgd, nesterov: momentum",
           {takes_momentum || s.momentum == 0,  // none is none to all
            "optimizers sgd and nesterov"}},
          s.momentum, 0.0, 1.0);
    const Use by_adam{s.kind == Kind::adam || s.kind == Kind::adamw, "optimizers adam and adamw"};
    visit({"adam_beta1", Section::learning, "adam, adamw: how slowly the mean follows", by_adam},
          s.beta1, 0.0, 0.999999);
    visit({"adam_beta2", Section::learning, "adam, adamw: how slowly the squares follow", by_adam},
          s.beta2, 0.0, 0.999999);
    visit({"weight_decay", Section::learning,
           "weight decay; adamw: beside the gradient, and of matrices alone"},
          s.weight_decay, 0.0, 1e6);
    visit(
        {"clip", Section::learning, "scale a gradient down whose norm is more than this; 0: never"},
        s.clip, 0.0, 1e9);
  }
};
// Throws Error, in one sentence, if it cannot be.
void check(const OptimizerSettings& settings);

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // One step down the gradient, with the learning rate times `lr_factor`. `copy`, if it is not
  // empty, gets the new weights as well; it may be the gradient's memory.
  virtual void update(std::span<float> weights, std::span<const float> gradient,
                      double lr_factor = 1, std::span<float> copy = {}) = 0;
  // With all of its state: to try an update without making it, or to hand a block on.
  virtual std::unique_ptr<Optimizer> copy() const = 0;
  // A number for each weight under every name, so that blocks can be cut anew (server/block_state.h);
  // what is one number for all of them stands under "single".
  virtual void visit_state(State state) = 0;
};

std::unique_ptr<Optimizer> make_server_optimizer(const OptimizerSettings& settings,
                                                 std::size_t elements);

// One function an optimizer, each in the file of its name.
std::unique_ptr<Optimizer> make_sgd(const OptimizerSettings& settings, std::size_t elements);
std::unique_ptr<Optimizer> make_adagrad(const OptimizerSettings& settings, std::size_t elements);
std::unique_ptr<Optimizer> make_adam(const OptimizerSettings& settings, std::size_t elements);

}  // namespace starling
