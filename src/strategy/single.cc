// single: no exchange at all. With one worker it is plain SGD; with several, the yardstick that
// shows what exchanging is worth.
#include "strategy/strategy.h"

namespace starling {

std::unique_ptr<Strategy> make_single(const Settings&, Group group, Workload) {
  return std::make_unique<Strategy>(group);
}

}  // namespace starling
