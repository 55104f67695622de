#include "train/legacy.h"

#include <algorithm>

#include "base/error.h"
#include "job/past.h"

namespace starling {

Legacy::Legacy(const Job& job, const Settings& settings)
    : copies(settings.copies()),
      past(load_past(job, settings, [this](const Snapshot& worker) { add(worker); })) {}

void Legacy::add(const Snapshot& worker) {
  const State state = State::restoring(worker).in("trainer");
  std::uint64_t its_rounds = 0, its_samples = 0;
  std::int64_t its_elapsed = 0;
  state("copies", copies);
  state.of_any_length("ledger", ledger);
  done.emplace_back().visit_state(state.in("done"));
  state("rounds", its_rounds);
  state("samples", its_samples);
  state("elapsed", its_elapsed);
  if (copies < 1 || copies > 4096) throw Error("the checkpoint is of no training");
  rounds = std::max(rounds, its_rounds);
  samples += its_samples;
  elapsed = std::max(elapsed, its_elapsed);
}

}  // namespace starling
