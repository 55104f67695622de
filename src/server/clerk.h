// The clerk hands out the work, a *unit* at a time (the batches of one step of one worker, or of
// one group). Server 0 keeps one. How it shares out is part of the schedule:
//
//   own_share        worker i takes the units i, i + n, i + 2n ..., as bsp has it
//   whoever_is_free  the next unit goes to whoever asks, so that a slow worker holds nobody up
//   until_share      own shares, but who has done its own of an epoch waits for its end, and who
//                    has not then skips the rest
//
// An epoch may end before its time, for all, once a share of its units is done. Where all go step by
// step, that is after the same step for all; where units go to whoever is free, it is when so many
// have been handed out, and nobody waits for the last of them.
#pragma once

#include <cstdint>
#include <vector>

#include "base/state.h"
#include "runtime/bell.h"

namespace starling {

struct WorkPlan {
  std::uint64_t units = 0;
  std::uint64_t units_per_epoch = 1;
  bool operator==(const WorkPlan&) const = default;
};

class Clerk {
 public:
  enum class Mode { own_share, whoever_is_free, until_share };
  struct Options {
    Mode mode = Mode::own_share;
    double epoch_share = 1;
  };
  static constexpr std::uint64_t kNoMore = ~std::uint64_t{0};

  Clerk(Loop& loop, const Options& options, int workers);

  void plan(const WorkPlan& plan) { plan_ = plan; }
  // The worker's next unit, or kNoMore. Asking says that the one before is done.
  Task<std::uint64_t> next(int worker);
  // The same, step by step: it asks, which counts once however often it is said; when it has to
  // wait no longer it is told. A copy of the clerk that sees these steps knows as much.
  void ask(int worker);
  bool has_to_wait(int worker) const { return of(worker).waits && !stopped_; }
  Bell& changed() { return changed_; }
  std::uint64_t tell(int worker);
  // How many it has been told, and the last of them.
  std::uint64_t told(int worker) const { return of(worker).told; }
  std::uint64_t last_told(int worker) const { return of(worker).last_told; }
  // No more work for anybody.
  void stop();
  // The worker will ask no more.
  void leave(int worker);
  // What a worker has last been told to do it is told once more by who goes on from here.
  void visit_state(State state);
  // For a copy, which is to be the same in everything.
  void visit_copy(State state);

 private:
  struct Worker {
    bool active = true;
    bool asks = false;
    bool waits = false;  // has done its share of this epoch
    bool again = false;  // has not done what it was told last
    std::uint64_t last = kNoMore;
    std::uint64_t told = 0;
    std::uint64_t last_told = kNoMore;
  };

  Worker& of(int worker) { return workers_[static_cast<std::size_t>(worker)]; }
  const Worker& of(int worker) const { return workers_[static_cast<std::size_t>(worker)]; }
  std::uint64_t own_next(int worker) const;
  std::uint64_t unit_after_last(int worker);

  std::uint64_t epoch_of(std::uint64_t unit) const { return unit / plan_.units_per_epoch; }
  std::uint64_t enough_units() const;
  std::uint64_t own_after(std::uint64_t unit, std::uint64_t worker) const;
  std::uint64_t free_unit();
  void end_epoch_if_over();

  Options options_;
  WorkPlan plan_;
  std::vector<Worker> workers_;
  std::uint64_t free_ = 0;        // whoever_is_free: the next unit
  std::uint64_t epoch_ = 0;       // until_share: the epoch all are in,
  std::uint64_t epoch_done_ = 0;  // and how much of it is done
  bool stopped_ = false;
  Bell changed_;
};

}  // namespace starling
