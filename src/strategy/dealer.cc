#include "strategy/dealer.h"

#include "strategy/grid.h"
#include "strategy/server_plan.h"

namespace starling {

std::unique_ptr<Dealer> make_dealer(const Settings& settings, Comm& comm, const Workload& workload,
                                    Strategy& strategy) {
  const Group workers = slice_workers(settings, comm, GroupNumber::training);
  if (server_count(settings) > 0) return make_clerk_dealer(settings, workers);
  if (Progress* progress = strategy.progress()) {
    return make_progress_dealer(workers, workload.batches, *progress);
  }
  return make_turns(workers, workload.batches, strategy.stop_vote());
}

}  // namespace starling
