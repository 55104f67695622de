#include "strategy/strategy.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "exchange/collect.h"
#include "exchange/pairwise.h"
#include "strategy/mix_plan.h"

namespace starling {

namespace {

// FNV-1a over words: enough to tell whether two workers drew the same first weights.
std::uint64_t fingerprint(std::span<const float> values) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (float value : values) hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * 0x100000001b3;
  return hash;
}

}  // namespace

Task<> Strategy::start(Replica replica) {
  std::vector<std::uint64_t> prints(static_cast<std::size_t>(comm_.size()));
  prints[static_cast<std::size_t>(comm_.rank())] = fingerprint(replica.weights);
  co_await all_gather(comm_, weights_channel(), std::as_writable_bytes(std::span(prints)));
  if (std::ranges::count(prints, prints[0]) == comm_.size()) co_return;
  co_await broadcast(comm_, weights_channel(), std::as_writable_bytes(replica.weights), 0);
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
  if (is_mix(settings)) return make_mix(settings, comm, workload);
  if (settings.strategy == "ring-leader") return make_ring_leader(settings, comm);
  if (settings.strategy == "server") {
    return make_server_strategy(settings, comm, std::move(workload));
  }
  STARLING_CHECK(settings.strategy == "single", "'{}' was not checked", settings.strategy);
  return make_single(settings, comm);
}

}  // namespace starling
