#include "server/optimizer.h"

namespace starling {

std::unique_ptr<Optimizer> make_server_optimizer(const OptimizerSettings& settings,
                                                 std::size_t elements) {
  switch (settings.kind) {
    case OptimizerSettings::Kind::adagrad:
      return make_adagrad(settings, elements);
    case OptimizerSettings::Kind::adam:
      return make_adam(settings, elements);
    case OptimizerSettings::Kind::sgd:
    case OptimizerSettings::Kind::nesterov:
      break;
  }
  return make_sgd(settings, elements);
}

}  // namespace starling
