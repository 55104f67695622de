// Bulk-synchronous: step t of all workers is one update by the mean of their gradients.
#include "server/block.h"
#include "server/gate.h"

namespace starling {

namespace {

class BspGate : public Gate {
 public:
  void choose(const Block& block, std::vector<std::size_t>& chosen) const override {
    choose_whole_round(block, chosen);
  }
  bool may_read(const Block& block, int worker) const override {
    return block.clock(worker) <= block.version();
  }
  bool needs_everybody() const override { return true; }
  bool reads_alone() const override { return true; }
};

}  // namespace

std::unique_ptr<Gate> make_bsp_gate() { return std::make_unique<BspGate>(); }

}  // namespace starling
