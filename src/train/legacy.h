#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/state.h"
#include "job/job.h"
#include "strategy/batch_ledger.h"
#include "strategy/settings.h"

namespace starling {

// Where a training stands that is to go on, from the files of all who had a part in it.
struct Legacy {
  Legacy(const Job& job, const Settings& settings);

  State state() const { return past ? State::restoring(*past) : State(); }
  // As many workers as there were: each goes on as it was.
  bool is_whole() const { return past && !past->partial; }

  int copies;  // that batches are cut for
  std::vector<std::uint64_t> ledger;
  std::vector<DoneBatches> done;
  std::uint64_t rounds = 0, samples = 0;
  std::int64_t elapsed = 0;
  std::optional<Snapshot> past;  // reading it fills the others

 private:
  void add(const Snapshot& worker);
};

}  // namespace starling
