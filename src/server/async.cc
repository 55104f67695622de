// Asynchronous: each gradient is an update as it comes, the most stale of those that wait first,
// and a worker reads as soon as its own is in.
#include "server/block.h"
#include "server/gate.h"

namespace starling {

namespace {

class AsyncGate : public Gate {
 public:
  void choose(const Block& block, std::vector<std::size_t>& chosen) const override {
    choose_most_stale(block, chosen);
  }
  bool may_read(const Block& block, int worker) const override { return !block.is_waiting(worker); }
  bool needs_everybody() const override { return false; }
};

}  // namespace

std::unique_ptr<Gate> make_async_gate() { return std::make_unique<AsyncGate>(); }

}  // namespace starling
