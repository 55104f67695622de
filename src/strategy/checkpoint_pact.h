// After which round workers keep a checkpoint together. By steps all know it. By time one of them says;
// so that nobody is asked in vain after every round, it also says when they meet next: four times in an
// interval, and often enough to hear soon of one that is to stop. Then all do, with a last checkpoint.
#pragma once

#include "runtime/group.h"
#include "strategy/checkpoint_settings.h"

namespace starling {

class CheckpointPact {
 public:
  CheckpointPact(CheckpointInterval interval, Time now)
      : interval_(interval), met_(now), kept_(now) {}

  // All begin with that round, anew or with others than before.
  void begin(std::uint64_t round);
  bool goes_by_time() const { return interval_.steps == 0; }
  // Whether there is a word to be had after that round.
  bool meets_after(std::uint64_t round) const;
  // All of the group, after the same round. What they agree on stands below until they meet again.
  Task<> meet(Group group, std::uint64_t round, bool is_to_stop);
  bool is_due() const { return is_due_; }
  bool all_stop() const { return all_stop_; }

  void keep(std::uint64_t round, Time now);
  bool has_kept(std::uint64_t round) const { return kept_round_ == round; }

 private:
  struct Word {
    std::uint64_t is_due, next_round, stop;
  };
  Word decide(std::uint64_t round, Time round_takes, bool stop) const;

  CheckpointInterval interval_;
  std::uint64_t next_round_ = 0;  // that they meet after,
  std::uint64_t met_round_ = 0;   // the last, and
  std::uint64_t kept_round_ = 0;  // the one with a checkpoint
  Time met_, kept_;
  bool is_due_ = false, all_stop_ = false;
};

}  // namespace starling
