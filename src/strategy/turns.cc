// turns: worker i takes the batches i, i + n, i + 2n ..., until there are no more or all have been
// told to stop.
#include "strategy/dealer.h"

namespace starling {

namespace {

class Turns : public Dealer {
 public:
  Turns(Group workers, std::uint64_t batches, StopVote* stop_vote)
      : next_(static_cast<std::uint64_t>(workers.rank())),
        workers_(static_cast<std::uint64_t>(workers.size())),
        batches_(batches),
        stop_vote_(stop_vote) {}

  Task<std::optional<std::uint64_t>> next() override {
    const bool stopped = stop_vote_ != nullptr && stop_vote_->decided;
    if (stopped || next_ >= batches_) co_return std::nullopt;
    co_return std::exchange(next_, next_ + workers_);
  }

  void visit_state(State state) override { state("next", next_); }

  Task<> stop() override {
    if (stop_vote_ != nullptr) stop_vote_->wanted = true;
    co_return;
  }

 private:
  std::uint64_t next_;
  std::uint64_t workers_;
  std::uint64_t batches_;
  StopVote* stop_vote_;
};

}  // namespace

std::unique_ptr<Dealer> make_turns(Group workers, std::uint64_t batches, StopVote* stop_vote) {
  return std::make_unique<Turns>(workers, batches, stop_vote);
}

}  // namespace starling
