#include "strategy/strategy.h"

#include <algorithm>
#include <bit>

#include "exchange/collectives.h"
#include "strategy/registry.h"

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
  std::vector<std::uint64_t> prints(static_cast<std::size_t>(group_.size()));
  prints[static_cast<std::size_t>(group_.rank())] = fingerprint(replica.weights);
  const Vector all = std::as_writable_bytes(std::span(prints));
  co_await all_gather(group_, weights_channel(), all, even_pieces(all, group_.size()));
  if (std::ranges::count(prints, prints[0]) == group_.size()) co_return;
  co_await broadcast(group_, weights_channel(), replica.weights, 0);
}

Task<> Strategy::after_backward(Bucket) { co_return; }

Task<> Strategy::after_update(Replica) { co_return; }

Task<> Strategy::finish(Replica replica) {
  return mean_of_all(group_, weights_channel(), replica.weights);
}

Task<std::uint64_t> Strategy::next_batch(std::optional<std::uint64_t> before) {
  const auto rank = static_cast<std::uint64_t>(group_.rank());
  co_return before ? *before + static_cast<std::uint64_t>(group_.size()) : rank;
}

Task<> Strategy::stop() { co_return; }

Task<> Strategy::catch_up(Replica) { co_return; }

std::unique_ptr<Strategy> make_strategy(const Settings& settings, Comm& comm, Workload workload) {
  const Group group =
      Group(comm).first(settings.workers, static_cast<std::uint32_t>(GroupNumber::training));
  return strategy_row(settings.strategy).make(settings, group, std::move(workload));
}

}  // namespace starling
