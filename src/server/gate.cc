#include "server/gate.h"

#include <algorithm>

#include "server/block.h"

namespace starling {

std::unique_ptr<Gate> make_gate(const GateSettings& settings) {
  switch (settings.kind) {
    case GateSettings::Kind::bsp:
      break;
    case GateSettings::Kind::ssp:
      return make_ssp_gate(static_cast<std::uint64_t>(settings.delay_bound));
    case GateSettings::Kind::async:
      return make_async_gate();
    case GateSettings::Kind::value:
      return make_value_gate(settings.value_bound);
    case GateSettings::Kind::quorum:
      return make_quorum_gate(settings.quorum);
    case GateSettings::Kind::softsync:
      return make_softsync_gate(settings.quorum);
  }
  return make_bsp_gate();
}

void choose_first(const Block& block, int pushes, std::vector<std::size_t>& chosen) {
  const auto enough = static_cast<std::size_t>(std::clamp(block.active_workers(), 1, pushes));
  if (block.waiting().size() < enough) return;
  for (std::size_t i = 0; i < enough; ++i) chosen.push_back(i);  // in the order of arrival
  std::ranges::sort(chosen, {}, [&](std::size_t i) { return block.waiting()[i].worker; });
}

void choose_most_stale(const Block& block, std::vector<std::size_t>& chosen) {
  const auto stalest = std::ranges::min_element(block.waiting(), {}, &Push::version);
  if (stalest == block.waiting().end()) return;
  chosen.push_back(static_cast<std::size_t>(stalest - block.waiting().begin()));
}

void choose_whole_round(const Block& block, std::vector<std::size_t>& chosen) {
  const std::uint64_t round = block.version();
  for (int worker = 0; worker < block.workers(); ++worker) {
    if (block.active(worker) && block.clock(worker) <= round) return;
  }
  for (std::size_t i = 0; i < block.waiting().size(); ++i) {
    if (block.waiting()[i].clock == round) chosen.push_back(i);
  }
  std::ranges::sort(chosen, {}, [&](std::size_t i) { return block.waiting()[i].worker; });
}

}  // namespace starling
