// Value bound: an update that would move some weight by Delta or more away from what a worker is
// computing on is held until that worker has read again. A worker that has pushed is not computing,
// so when all wait nothing is held: the gate cannot lock itself.
#include "server/block.h"
#include "server/gate.h"

namespace starling {

namespace {

class ValueGate : public Gate {
 public:
  explicit ValueGate(double value_bound) : value_bound_(value_bound) {}

  void choose(const Block& block, std::vector<std::size_t>& chosen) const override {
    // The most stale of those that keep the bound.
    for (std::size_t i = 0; i < block.waiting().size(); ++i) {
      const bool staler =
          chosen.empty() || block.waiting()[i].version < block.waiting()[chosen.front()].version;
      if (!staler || block.distance_after(i) >= value_bound_) continue;
      chosen.clear();
      chosen.push_back(i);
    }
  }
  bool may_read(const Block& block, int worker) const override { return !block.is_waiting(worker); }
  bool needs_everybody() const override { return false; }
  bool looks_at_reads() const override { return true; }

 private:
  double value_bound_;
};

}  // namespace

std::unique_ptr<Gate> make_value_gate(double value_bound) {
  return std::make_unique<ValueGate>(value_bound);
}

}  // namespace starling
