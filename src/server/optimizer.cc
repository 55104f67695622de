#include "server/optimizer.h"

#include "base/error.h"

namespace starling {

void check(const OptimizerSettings& settings) {
  if (settings.kind == OptimizerSettings::Kind::nesterov && settings.momentum == 0) {
    throw Error("nesterov needs a momentum", "use --momentum 0.9, or optimizer sgd");
  }
}

std::unique_ptr<Optimizer> make_server_optimizer(const OptimizerSettings& settings,
                                                 std::size_t elements) {
  switch (settings.kind) {
    case OptimizerSettings::Kind::adagrad:
      return make_adagrad(settings, elements);
    case OptimizerSettings::Kind::adam:
    case OptimizerSettings::Kind::adamw:
      return make_adam(settings, elements);
    case OptimizerSettings::Kind::sgd:
    case OptimizerSettings::Kind::nesterov:
      break;
  }
  return make_sgd(settings, elements);
}

}  // namespace starling
