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

Task<std::uint64_t> Strategy::next_batch(std::optional<std::uint64_t> before) {
  const auto rank = static_cast<std::uint64_t>(comm_.rank());
  co_return before ? *before + static_cast<std::uint64_t>(comm_.size()) : rank;
}

Task<> Strategy::stop() { co_return; }

Task<> Strategy::catch_up(Replica) { co_return; }

std::unique_ptr<Strategy> make_strategy(const Settings& settings, Comm& comm, Workload workload) {
  if (settings.strategy == "allreduce") return make_allreduce(settings, comm);
  if (settings.strategy == "pairwise") return make_pairwise(settings, comm);
  if (settings.strategy == "exponential") return make_exponential(settings, comm);
  if (settings.strategy == "local") return make_local(settings, comm);
  if (settings.strategy == "ring-leader") return make_ring_leader(settings, comm);
  if (settings.strategy == "server") {
    return make_server_strategy(settings, comm, std::move(workload));
  }
  STARLING_CHECK(settings.strategy == "single", "'{}' was not checked", settings.strategy);
  return make_single(settings, comm);
}

}  // namespace starling
