// Stale synchronous parallel: a worker more than s steps ahead of the slowest waits. What it reads
// includes all of its own updates, and all of everybody's that are more than s steps old.
//
// With s = 0 all gradients of a step were computed on the same weights: they are one update then,
// as in bsp.
#include <algorithm>

#include "server/block.h"
#include "server/gate.h"

namespace starling {

namespace {

class SspGate : public Gate {
 public:
  explicit SspGate(std::uint64_t delay_bound) : delay_bound_(delay_bound) {}

  void choose(const Block& block, std::vector<std::size_t>& chosen) const override {
    if (delay_bound_ == 0) return choose_whole_round(block, chosen);
    choose_most_stale(block, chosen);
  }
  bool may_read(const Block& block, int worker) const override {
    const std::uint64_t ahead = block.clock(worker) - std::min(block.clock(worker), block.closed());
    return !block.is_waiting(worker) && ahead <= delay_bound_;
  }
  bool needs_everybody() const override { return true; }

 private:
  std::uint64_t delay_bound_;
};

}  // namespace

std::unique_ptr<Gate> make_ssp_gate(std::uint64_t delay_bound) {
  return std::make_unique<SspGate>(delay_bound);
}

}  // namespace starling
