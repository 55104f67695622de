// A dealer says which batch a worker takes next. Batches are counted over all workers; how they are
// dealt out follows from who waits for whom:
//
//   turns     workers in step: worker i takes the batches i, i + n, i + 2n ...
//   progress  where nobody waits for anybody: who has done its share helps with what is left
//   clerk     server 0 deals out, as its gate has it (server/clerk.h)
//
// A user's own loop has its own data and needs none.
#pragma once

#include <memory>
#include <optional>

#include "strategy/strategy.h"

namespace starling {

class Dealer {
 public:
  virtual ~Dealer() = default;

  // Nothing: there is no more work. Asking says that the batch before is done.
  virtual Task<std::optional<std::uint64_t>> next() = 0;
  // The batch is computed: the next one may be asked for while its gradient travels.
  virtual void look_ahead() {}
  // Between two steps: until nothing is under way that visit_state() could not tell.
  virtual Task<> pause() { co_return; }
  virtual void visit_state(State) {}
  // Asks all workers to stop soon. Nothing to do where all come to the same conclusion by
  // themselves.
  virtual Task<> stop() { co_return; }
};

// For the strategy that was made of the same; it must live as long as the dealer.
std::unique_ptr<Dealer> make_dealer(const Settings& settings, Comm& comm, const Workload& workload,
                                    Strategy& strategy);

// One function a dealer, each in the file of its name.
std::unique_ptr<Dealer> make_turns(Group workers, std::uint64_t batches, StopVote* stop_vote);
std::unique_ptr<Dealer> make_progress_dealer(Group workers, std::uint64_t batches,
                                             Progress& progress);
std::unique_ptr<Dealer> make_clerk_dealer(const Settings& settings, Group workers);

}  // namespace starling
