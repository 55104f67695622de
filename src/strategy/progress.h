// How far everybody is, where nobody waits for anybody: now and then each worker tells the others
// how many batches it has done. Together they are to do a number of batches, whoever does them.
#pragma once

#include <list>
#include <vector>

#include "runtime/group.h"
#include "runtime/running.h"

namespace starling {

class Progress {
 public:
  // The group's channels are for this alone. `batches` of all together; 0: no end. Tells the others after every `stride`-th.
  Progress(Group group, std::uint64_t batches, std::uint64_t stride);

  void did(std::uint64_t own_batches);
  std::uint64_t done_by_all() const;
  // By each rank, as far as it has told.
  const std::vector<std::uint64_t>& done() const { return done_; }

  // Whether there is no more to do, or somebody has said so.
  bool over() const { return over_ || (batches_ > 0 && done_by_all() >= batches_); }
  // Says so to all.
  void end();
  // Until all have been told.
  Task<> settle();
  // Whether that one has said so, or is lost: it does no more.
  bool has_left(int rank) const { return left_[static_cast<std::size_t>(rank)]; }

  // How far the slowest of these ranks is that is neither lost nor done.
  std::uint64_t slowest_of(std::span<const int> ranks) const;
  // Rings when somebody has got on.
  Bell& news() { return news_; }

 private:
  Task<> tell(int rank);
  Task<> hear(int rank);

  Group group_;
  std::uint64_t batches_;
  std::uint64_t stride_;
  std::vector<std::uint64_t> done_;  // by each rank
  std::vector<bool> left_;           // lost, or has said that it is over
  bool over_ = false;
  bool ended_ = false;
  Bell moved_;  // rings for those who tell
  Bell news_;
  std::list<Running> telling_, hearing_;
};

}  // namespace starling
