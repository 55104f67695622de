// BatchLedger: which batches of a training are still to be done, where workers come and go. Batches are
// counted over the whole training and always hold the same samples; a generation deals out those that
// are left, by their index among them. When it ends, what its members have done is struck out, and the
// next one deals out the rest: so every sample is seen once an epoch, whoever sees it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/state.h"

namespace starling {

// The batches that a worker has done, in that order. Mostly the next one is as far from the last as that
// was from the one before.
class DoneBatches {
 public:
  void add(std::uint64_t batch);
  // Throws Error if there are more than `most`, or one is not below it.
  std::vector<std::uint64_t> numbers(std::uint64_t most) const;
  void visit_state(State state) { state.of_any_length("runs", runs_); }

 private:
  struct Run {
    std::uint64_t first = 0, distance = 0, count = 0;
  };
  std::vector<Run> runs_;
};

class BatchLedger {
 public:
  explicit BatchLedger(std::uint64_t batches = 0) : batches_(batches) {}

  std::uint64_t left() const { return skipped_.size() + (batches_ - next_); }
  // The batch with that index among those that are left; nothing if there are not so many.
  std::optional<std::uint64_t> at(std::uint64_t index) const;

  // Each of n workers took its turns, worker i the indices i, i + n, i + 2n ...; it has done the first
  // done[i] of them. Who has done more than its turns has done others': which is not known, and the first
  // that are left are taken for them.
  void strike_out(std::span<const std::uint64_t> done);

  // The same where a run is resumed, from what each has written down.
  void strike_out(const std::vector<DoneBatches>& by_all);
  // The training has another end now.
  void set_end(std::uint64_t batches);

  // As numbers that another worker can make the same ledger of. The second throws Error if they
  // cannot be of a ledger.
  std::vector<std::uint64_t> numbers() const;
  static BatchLedger of(std::span<const std::uint64_t> numbers);

  bool operator==(const BatchLedger&) const = default;

 private:
  std::uint64_t batches_;
  std::uint64_t next_ = 0;              // all from here on are left,
  std::vector<std::uint64_t> skipped_;  // and of those before it these, in their order
};

}  // namespace starling
