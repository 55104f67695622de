// Value bound: an update that would move some weight by Delta or more away from what a worker is
// computing on is held until that worker has pushed or read again.
//
// It cannot lock itself, with any number of blocks and servers, if workers go in two phases (as
// strategy/server.cc does): in the first a worker pushes its blocks and waits until they are
// settled; only then, in the second, does it read any. An update is held by those who have read its
// block and not pushed it. Such a worker
//   - computes: it will push, whatever others do;
//   - or reads: nobody's reading waits for anybody, for all of its own pushes are in;
//   - or pushes, and waits in the same lane for an earlier block. Lanes are the same for all, so
//     among those who wait in a lane, who waits for the earliest block is held by none of them.
// So somebody can always move. If it read one block while it waits for another, two workers could
// hold each other: each has read what the other has pushed.
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
