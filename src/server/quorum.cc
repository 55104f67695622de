// Quorum, with backup workers: the first q gradients on the newest weights are one update by their
// mean. Whoever comes later worked in vain: its gradient is dropped, and it goes on from the newest
// weights. When fewer than q workers are left, all that are left are the quorum.
#include "server/block.h"
#include "server/gate.h"

namespace starling {

namespace {

class QuorumGate : public Gate {
 public:
  explicit QuorumGate(int quorum) : quorum_(quorum) {}

  void choose(const Block& block, std::vector<std::size_t>& chosen) const override {
    choose_first(block, quorum_, chosen);
  }
  bool may_read(const Block& block, int worker) const override { return !block.is_waiting(worker); }
  bool needs_everybody() const override { return false; }
  bool drops_late() const override { return true; }

 private:
  int quorum_;
};

}  // namespace

std::unique_ptr<Gate> make_quorum_gate(int quorum) { return std::make_unique<QuorumGate>(quorum); }

}  // namespace starling
