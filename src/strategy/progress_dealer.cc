// progress: each takes its turns, however far the others are; who has done its share takes batches
// from where the flock is on the whole, until all have done the work together.
#include <algorithm>

#include "strategy/dealer.h"
#include "strategy/progress.h"

namespace starling {

namespace {

class ProgressDealer : public Dealer {
 public:
  ProgressDealer(Group workers, std::uint64_t batches, Progress& progress)
      : rank_(static_cast<std::uint64_t>(workers.rank())),
        workers_(static_cast<std::uint64_t>(workers.size())),
        batches_(batches),
        progress_(progress) {}

  Task<std::optional<std::uint64_t>> next() override {
    if (batches_ == 0 || progress_.over()) {
      progress_.end();
      co_return std::nullopt;
    }
    const std::uint64_t turn = dealt_++;
    const std::uint64_t own = turn * workers_ + rank_;
    if (own < batches_) co_return own;
    const std::uint64_t whole = progress_.done_by_all() / workers_ * workers_;
    co_return std::min(whole + (rank_ + turn) % workers_, batches_ - 1);
  }

  void visit_state(State state) override { state("dealt", dealt_); }

  Task<> stop() override {
    progress_.end();
    co_return;
  }

 private:
  std::uint64_t rank_;
  std::uint64_t workers_;
  std::uint64_t batches_;
  Progress& progress_;
  std::uint64_t dealt_ = 0;
};

}  // namespace

std::unique_ptr<Dealer> make_progress_dealer(Group workers, std::uint64_t batches,
                                             Progress& progress) {
  return std::make_unique<ProgressDealer>(workers, batches, progress);
}

}  // namespace starling
