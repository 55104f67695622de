// Who has asked for what, as the coordinator of exchanges by name keeps it: a pure object, without
// messages. A request is complete when everybody has asked for it, or has joined, which promises that
// nothing more comes from there. Then it has a verdict: that it begins, or what is wrong with it. What
// is complete first is told first.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exchange/named_request.h"
#include "runtime/clock.h"

namespace starling {

// The same one for all that are alike, where it is known: then they need not be compared.
using SharedRequest = std::shared_ptr<const NamedRequest>;

struct Verdict {
  SharedRequest request;  // the first one's; others may differ in rows and splits
  // Which of its own requests this is to each place; none where it has not asked.
  std::vector<std::optional<std::uint64_t>> numbers;
  std::string error;  // empty: go ahead
  // allgather: place by place the rows of each tensor. alltoall: place by place its splits. join: the
  // place that came last.
  std::vector<std::uint64_t> rows;

  int askers() const;
};

class RollCall {
 public:
  // The ranks that stand at the places, as people know them.
  explicit RollCall(std::vector<int> ranks)
      : ranks_(std::move(ranks)), joined_(ranks_.size(), false), gone_(ranks_.size()) {}

  // Place asks, for the number-th time. A request that it has asked for already and that is not
  // complete is an Error: it would have to wait for itself.
  void take(int place, std::uint64_t number, SharedRequest request, Time now);
  // Nothing more comes from there: whatever waits for it fails, and why.
  void leave(int place, const std::string& why);

  // What has become complete since the last time.
  std::vector<Verdict> complete();
  // Takes what has waited since then or longer, as failed.
  std::vector<Verdict> overdue(Time since);
  // What has waited as long and was not told before: a line for each.
  std::vector<std::string> slow(Time since);
  bool empty() const { return waiting_.empty(); }

 private:
  static constexpr std::size_t kMostWaiting = 1 << 20;

  using Key = std::pair<Act, std::string>;
  struct Waiting {
    std::vector<SharedRequest> requests;
    std::vector<std::optional<std::uint64_t>> numbers;
    int askers = 0;
    int last = 0;
    Time since{0};
    bool told = false;
  };

  bool is_complete(const Waiting& waiting) const;
  void look_at(const Key& key);
  void look_at_all();
  Verdict judge(const Key& key, Waiting waiting);
  static const SharedRequest& first_of(const Waiting& waiting);
  std::string difference(const Waiting& waiting) const;
  std::string missing(const Waiting& waiting) const;
  std::string fault(const Key& key, const Waiting& waiting) const;
  std::string ranks_at(const std::vector<int>& places) const;

  std::vector<int> ranks_;
  std::vector<bool> joined_;
  std::vector<std::optional<std::string>> gone_;
  std::map<Key, Waiting> waiting_;
  std::vector<Verdict> complete_;
};

}  // namespace starling
