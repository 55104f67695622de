// Softsync (W. Zhang et al., Staleness-Aware Async-SGD, 2016): whenever c gradients have come, their
// mean is one update, whatever weights each was computed on; none is dropped. A worker goes on as
// soon as its own is in. c = 1 is async; c = n waits for all as bsp does.
#include "server/block.h"
#include "server/gate.h"

namespace starling {

namespace {

class SoftsyncGate : public Gate {
 public:
  explicit SoftsyncGate(int gradients) : gradients_(gradients) {}

  void choose(const Block& block, std::vector<std::size_t>& chosen) const override {
    choose_first(block, gradients_, chosen);
  }
  bool may_read(const Block& block, int worker) const override { return !block.is_waiting(worker); }
  bool needs_everybody() const override { return false; }

 private:
  int gradients_;
};

}  // namespace

std::unique_ptr<Gate> make_softsync_gate(int gradients) {
  return std::make_unique<SoftsyncGate>(gradients);
}

}  // namespace starling
