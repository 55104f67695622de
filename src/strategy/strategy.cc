#include "strategy/strategy.h"

#include <array>
#include <bit>

#include "exchange/allreduce.h"
#include "exchange/collectives.h"
#include "strategy/grid.h"
#include "strategy/registry.h"

namespace starling {

namespace {

// FNV-1a over words: enough to tell whether two workers drew the same first weights.
std::int64_t fingerprint(std::span<const float> values) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (float value : values) hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * 0x100000001b3;
  return std::bit_cast<std::int64_t>(hash);
}

}  // namespace

Task<bool> Strategy::all_alike(std::span<const float> weights) {
  const std::int64_t print = fingerprint(weights);
  std::array<std::int64_t, 2> least = {print, ~print};  // the least complement is of the largest
  co_await doubling_allreduce(group_, weights_channel(), std::span(least), Reduction::min);
  co_return least[0] == ~least[1];
}

Task<> Strategy::start(Replica replica, State past) {
  if (past.restores_all()) co_return;
  Task<bool> looking = all_alike(replica.weights);
  const bool alike = co_await looking;
  if (!alike) co_await broadcast(group_, weights_channel(), replica.weights, 0);
}

Task<> Strategy::resume(Replica) { co_return; }

Task<> Strategy::after_backward(Bucket) { co_return; }

Task<> Strategy::after_update(Replica) { co_return; }

Task<> Strategy::finish(Replica replica) {
  return allreduce(find_allreduce("auto"), group_, weights_channel(), replica.weights,
                   Reduction::mean);
}

Task<> Strategy::catch_up(Replica) { co_return; }

Task<> Strategy::pause() { co_return; }

Task<> Strategy::save_servers(std::uint64_t) { co_return; }

std::unique_ptr<Strategy> make_strategy(const Settings& settings, Comm& comm, Workload workload) {
  const Group group = slice_workers(settings, comm, GroupNumber::training);
  return strategy_row(settings.strategy).make(settings, group, std::move(workload));
}

}  // namespace starling
