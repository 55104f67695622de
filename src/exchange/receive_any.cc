// A receive is posted for every rank. When the first byte of a message comes, its receive asks for
// memory, and the others are withdrawn before anything more can arrive: so no two messages ever land
// here, and none is lost.
#include "exchange/receive_any.h"

#include <fmt/format.h>

#include <deque>
#include <optional>

#include "runtime/running.h"

namespace starling {

namespace {

class Candidates {
 public:
  Candidates(Group group, Channel channel, Bytes bytes)
      : group_(group), channel_(channel), bytes_(bytes) {}

  // Until a message is here whole; at which place its sender stands.
  Task<> wait(int& from) {
    // A message that is here already is taken at once, and leaves nobody else to ask.
    for (int place = 0; place < group_.size() && !taken_; ++place) {
      candidates_.emplace_back(*this, place);
      candidates_.back().running.emplace(candidates_.back().listen(), signal_);
    }
    while (!over()) co_await signal_;
    const Candidate& decisive = taken_ ? *taken_ : candidates_.back();
    decisive.running->rethrow_failure();
    from = decisive.place;
  }

 private:
  struct Candidate : Lender {
    Candidate(Candidates& all, int at) : candidates(all), place(at) {}

    Task<> listen() {
      Receive& own = receive.emplace(candidates.group_, place, candidates.channel_,
                                     candidates.bytes_.size(), *this);
      co_await own;
    }
    std::optional<Bytes> lend(std::size_t bytes) override {
      candidates.take(*this, bytes);
      return candidates.bytes_;
    }

    Candidates& candidates;
    int place;
    std::optional<Receive> receive;
    std::optional<Running> running;
  };

  void take(Candidate& first, std::size_t bytes) {
    if (bytes != bytes_.size()) {
      throw Error(fmt::format("rank {} sent {} bytes in {} where {} were expected",
                              group_.in_comm(first.place), bytes, channel_.operation,
                              bytes_.size()));
    }
    taken_ = &first;
    for (Candidate& each : candidates_) {
      if (&each != &first) each.receive.reset();
    }
  }

  bool over() const {
    if (taken_) return taken_->running->done();
    for (const Candidate& each : candidates_) {
      if (!each.running->done()) return false;
    }
    return true;  // there is nobody left who could send
  }

  Group group_;
  Channel channel_;
  Bytes bytes_;
  Signal signal_;
  std::deque<Candidate> candidates_;
  Candidate* taken_ = nullptr;
};

}  // namespace

Task<> receive_any(Group group, Channel channel, Bytes bytes, int& from) {
  Candidates candidates(group, channel, bytes);
  Task<> waiting = candidates.wait(from);
  co_await waiting;
}

}  // namespace starling
