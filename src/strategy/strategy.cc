#include "strategy/strategy.h"

#include "base/check.h"
#include "exchange/collect.h"
#include "exchange/pairwise.h"

namespace starling {

Task<> Strategy::start(Replica replica) {
  return broadcast(comm_, weights_channel(), std::as_writable_bytes(replica.weights), 0);
}

Task<> Strategy::after_backward(Bucket) { co_return; }

Task<> Strategy::after_update(Replica) { co_return; }

Task<> Strategy::finish(Replica replica) {
  return mean_of_all(comm_, weights_channel(), replica.weights);
}

std::unique_ptr<Strategy> make_strategy(const Settings& settings, Comm& comm) {
  if (settings.strategy == "allreduce") return make_allreduce(settings, comm);
  if (settings.strategy == "pairwise") return make_pairwise(settings, comm);
  if (settings.strategy == "exponential") return make_exponential(settings, comm);
  if (settings.strategy == "local") return make_local(settings, comm);
  STARLING_CHECK(settings.strategy == "single", "'{}' was not checked", settings.strategy);
  return make_single(settings, comm);
}

}  // namespace starling
