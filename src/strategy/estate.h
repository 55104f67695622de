// Estate: what the workers of a generation leave to the next, and how that takes it over. Each worker
// keeps one for as long as it is there.
//
//   estate.take_over(workers, generation, state)    all workers of a new generation, together
//   estate.batches()                                for a dealer: how many turns there are
//   estate.at(turn)                                 which batch of the whole training that is
//   estate.took(), estate.did()                     around each
//   estate.part(now, next)                          another was agreed on
//   estate.close()                                  the generation is over
//
// While they work, all tell each other now and then how far they are: what a worker has done that is
// lost before it has said so is done again. Who leaves says so before it goes.
#pragma once

#include "roster/roster.h"
#include "strategy/batch_ledger.h"
#include "strategy/progress.h"
#include "strategy/succession.h"

namespace starling {

class Estate {
 public:
  // What a worker knows beyond the work that is left: its weights, its optimizer.
  struct State {
    std::function<std::vector<std::byte>()> save;
    std::function<void(ConstBytes)> restore;  // throws Error if it cannot be
    std::size_t most_bytes = 1 << 30;         // of another's, with what is left to do
  };

  // Of a training of so many batches. Where gradients are averaged all workers are alike.
  Estate(std::uint64_t batches, bool all_are_alike) : Estate(BatchLedger(batches), all_are_alike) {}
  // Or of what is left of one that is resumed.
  Estate(BatchLedger left, bool all_are_alike)
      : all_are_alike_(all_are_alike), ledger_(std::move(left)) {}

  // The first generation has nothing to take over. The group's channels are for this alone.
  void begin(Group workers);
  // Later ones: those who come from the generation before agree on what is done, and who has just
  // joined, or is behind, gets another's state.
  Task<> take_over(Group workers, std::uint64_t generation, const State& state);
  // Where all were at work who agreed on the next generation: whoever leaves tells the others the last of
  // what it has done, and they wait for that.
  Task<> part(const Roster& now, const Roster& next);
  // Nothing is said or heard any more.
  void close();

  // A multiple of the workers, so that those who go step by step take as many turns.
  std::uint64_t batches() const;
  // Nothing: this turn comes to no batch.
  std::optional<std::uint64_t> at(std::uint64_t turn) const { return ledger_.at(turn); }
  // What was left when this generation began.
  const BatchLedger& ledger() const { return ledger_; }
  // A worker has taken a batch; what it has taken so far is in its weights.
  void took() { ++taken_; }
  void did();
  std::uint64_t done() const { return done_; }
  std::uint64_t generation() const { return generation_; }

 private:
  void settle(Group workers, std::uint64_t generation);

  bool all_are_alike_;
  BatchLedger ledger_;
  std::uint64_t generation_ = 0;  // 0: this worker has just come
  int place_ = 0, places_ = 1;    // who it is in it, of how many
  std::uint64_t taken_ = 0, done_ = 0;
  std::vector<std::uint64_t> heard_;  // how far each was, when the generation was over
  std::optional<Progress> progress_;  // while it is not
};

}  // namespace starling
