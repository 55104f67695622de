#include "exchange/roll_call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "base/error.h"

namespace starling {

namespace {

std::string title(Act act, const std::string& name) {
  const std::string_view kind = kActNames[static_cast<std::size_t>(act)];
  return name.empty() ? std::string(kind) : fmt::format("{} '{}'", kind, name);
}

std::string describe(const TensorForm& tensor) {
  return fmt::format("{} of shape [{}]", info(tensor.type).name, fmt::join(tensor.shape, ", "));
}

// What is compared, in words: a headline and what stands below it.
using Words = std::vector<std::string>;

Words describe_tensors(const NamedRequest& request, bool with_rows) {
  Words words = {
      fmt::format("{} tensor{}", request.tensors.size(), request.tensors.size() == 1 ? "" : "s")};
  for (const TensorForm& tensor : request.tensors) {
    if (!with_rows && !tensor.shape.empty()) {
      words.push_back(fmt::format("{} of {} dimensions, rows of shape [{}]", info(tensor.type).name,
                                  tensor.shape.size(),
                                  fmt::join(std::span(tensor.shape).subspan(1), ", ")));
    } else {
      words.push_back(describe(tensor));
    }
  }
  return words;
}

// As much of it as one can read, with the first that is not alike everywhere.
std::string excerpt(const Words& words, std::size_t unlike) {
  constexpr std::size_t kMost = 8;
  const std::size_t begin = unlike > kMost ? unlike : 1, behind = words.size() - begin;
  if (behind == 0) return words[0];
  return fmt::format("{}{}: {}{}", words[0],
                     begin > 1 ? fmt::format(", from number {} on", begin) : "",
                     fmt::join(std::span(words).subspan(begin, std::min(behind, kMost)), "; "),
                     behind > kMost ? fmt::format("; and {} more", behind - kMost) : "");
}

// What must be alike, in words; the first that differs is told.
struct Trait {
  const char* name;
  std::function<Words(const NamedRequest&)> of;
};

std::vector<Trait> traits_of(Act act) {
  const auto reduction = [](const NamedRequest& request) {
    return Words{std::string(kBlendNames[static_cast<std::size_t>(request.blend)])};
  };
  const auto factors = [](const NamedRequest& request) {
    return Words{fmt::format("{} before and {} after", request.before, request.after)};
  };
  const bool any_rows = act == Act::allgather || act == Act::alltoall;
  std::vector<Trait> traits = {{"what is exchanged", [any_rows](const NamedRequest& request) {
                                  return describe_tensors(request, !any_rows);
                                }}};
  if (act == Act::allreduce || act == Act::reducescatter) {
    traits.push_back({"the reduction", reduction});
    traits.push_back({"the factors", factors});
  }
  if (act == Act::broadcast) {
    traits.push_back({"the root", [](const NamedRequest& request) {
                        return Words{fmt::format("{}", request.root)};
                      }});
  }
  return traits;
}

// As cheap as can be: requests that are alike, which is how it nearly always is.
bool are_alike(const SharedRequest& one, const SharedRequest& other) {
  return one == other || *one == *other;
}

}  // namespace

int Verdict::askers() const {
  return static_cast<int>(
      std::ranges::count_if(numbers, [](const auto& number) { return number.has_value(); }));
}

std::string RollCall::ranks_at(const std::vector<int>& places) const {
  std::vector<int> ranks;
  for (int place : places) ranks.push_back(ranks_[static_cast<std::size_t>(place)]);
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

void RollCall::take(int place, std::uint64_t number, SharedRequest request, Time now) {
  const auto at = static_cast<std::size_t>(place);
  const Key key{request->act, request->name};
  if (waiting_.size() >= kMostWaiting) {
    throw Error(fmt::format("more than {} exchanges wait for somebody", kMostWaiting));
  }
  const auto [found, is_new] = waiting_.try_emplace(key);
  Waiting& waiting = found->second;
  if (is_new) {
    waiting.requests.resize(ranks_.size());
    waiting.numbers.resize(ranks_.size());
    waiting.since = now;
  }
  if (waiting.numbers[at]) {
    throw Error(fmt::format("rank {} asks for {} twice", ranks_[at], title(key.first, key.second)));
  }
  waiting.numbers[at] = number;
  waiting.requests[at] = std::move(request);
  ++waiting.askers;
  waiting.last = place;
  if (key.first == Act::join) {
    joined_[at] = true;
    look_at_all();
  } else {
    look_at(key);
  }
}

void RollCall::leave(int place, const std::string& why) {
  gone_[static_cast<std::size_t>(place)] = why;
  look_at_all();
}

// A rank that has gone makes everything complete that it has not asked for: as failed.
bool RollCall::is_complete(const Waiting& waiting) const {
  for (std::size_t place = 0; place < ranks_.size(); ++place) {
    if (!waiting.numbers[place] && gone_[place]) return true;
  }
  for (std::size_t place = 0; place < ranks_.size(); ++place) {
    if (!waiting.numbers[place] && !joined_[place]) return false;
  }
  return true;
}

void RollCall::look_at(const Key& key) {
  const auto found = waiting_.find(key);
  if (!is_complete(found->second)) return;
  Waiting waiting = std::move(found->second);
  waiting_.erase(found);
  complete_.push_back(judge(key, std::move(waiting)));
}

void RollCall::look_at_all() {
  std::vector<Key> keys;
  for (const auto& [key, waiting] : waiting_) {
    if (key.first != Act::join) keys.push_back(key);
  }
  for (const Key& key : keys) look_at(key);
  const auto joining = waiting_.find(Key{Act::join, ""});
  if (joining == waiting_.end()) return;
  const int came = joining->second.askers;
  const bool somebody_gone = std::ranges::any_of(gone_, [](const auto& why) { return !!why; });
  if (came == static_cast<int>(ranks_.size()) || somebody_gone) {
    look_at(Key{Act::join, ""});
    if (!waiting_.contains(Key{Act::join, ""})) joined_.assign(ranks_.size(), false);
  }
}

// Of those who have asked; there is one.
const SharedRequest& RollCall::first_of(const Waiting& waiting) {
  return *std::ranges::find_if(waiting.requests, [](const auto& request) { return !!request; });
}

std::string RollCall::difference(const Waiting& waiting) const {
  const SharedRequest& first = first_of(waiting);
  const bool all_alike = std::ranges::all_of(waiting.requests, [&](const SharedRequest& request) {
    return !request || are_alike(first, request);
  });
  if (all_alike) return "";
  for (const Trait& trait : traits_of(first->act)) {
    std::map<Words, std::vector<int>> views;
    for (std::size_t place = 0; place < ranks_.size(); ++place) {
      if (waiting.requests[place]) {
        views[trait.of(*waiting.requests[place])].push_back(static_cast<int>(place));
      }
    }
    if (views.size() < 2) continue;
    const Words &one = views.begin()->first, &other = views.rbegin()->first;  // the least alike
    const auto unlike =
        static_cast<std::size_t>(std::ranges::mismatch(one, other).in1 - one.begin());
    std::vector<std::pair<std::vector<int>, std::string>> sides;
    for (const auto& [view, places] : views) sides.emplace_back(places, excerpt(view, unlike));
    std::ranges::sort(sides);
    std::vector<std::string> words;
    for (const auto& [places, view] : sides) {
      words.push_back(fmt::format("{}: {}", ranks_at(places), view));
    }
    return fmt::format("ranks differ in {}: {}", trait.name, fmt::join(words, " | "));
  }
  return "";
}

// What is wrong with a request that is complete; empty if nothing is.
std::string RollCall::fault(const Key& key, const Waiting& waiting) const {
  const Act act = key.first;
  std::vector<int> joined;
  const SharedRequest& first = first_of(waiting);
  for (std::size_t place = 0; place < ranks_.size(); ++place) {
    const auto& request = waiting.requests[place];
    if (!request && gone_[place]) return fmt::format("rank {} {}", ranks_[place], *gone_[place]);
    if (!request) joined.push_back(static_cast<int>(place));
  }
  const std::string differing = difference(waiting);
  if (!differing.empty()) return differing;
  if (!joined.empty() && act != Act::allreduce && act != Act::barrier) {
    return fmt::format("{} {} joined, and only an allreduce or a barrier does without",
                       ranks_at(joined), joined.size() == 1 ? "has" : "have");
  }
  const bool by_rows = act == Act::allgather || act == Act::alltoall || act == Act::reducescatter;
  if (by_rows &&
      std::ranges::any_of(first->tensors, [](const auto& t) { return t.shape.empty(); })) {
    return "a tensor without dimensions has no rows";
  }
  if (act == Act::broadcast &&
      (first->root < 0 || first->root >= static_cast<int>(ranks_.size()))) {
    return fmt::format("there is no root {} among {} ranks", first->root, ranks_.size());
  }
  for (std::size_t place = 0; place < ranks_.size() && act == Act::alltoall; ++place) {
    const NamedRequest& request = *waiting.requests[place];
    std::uint64_t rows = 0;
    for (const std::uint64_t split : request.splits) {
      rows += std::min(split, NamedRequest::kMostElements);
    }
    if (request.splits.size() != ranks_.size() || request.tensors.size() != 1 ||
        rows > request.tensors[0].rows()) {
      return fmt::format("the splits of rank {} do not fit", ranks_[place]);
    }
  }
  return "";
}

Verdict RollCall::judge(const Key& key, Waiting waiting) {
  Verdict verdict;
  const std::string wrong = fault(key, waiting);
  if (!wrong.empty()) verdict.error = fmt::format("{}: {}", title(key.first, key.second), wrong);
  for (const auto& request : waiting.requests) {
    if (!request || !wrong.empty()) continue;
    if (key.first == Act::allgather) {
      for (const TensorForm& tensor : request->tensors) verdict.rows.push_back(tensor.rows());
    }
    if (key.first == Act::alltoall) {
      verdict.rows.insert(verdict.rows.end(), request->splits.begin(), request->splits.end());
    }
  }
  if (key.first == Act::join) verdict.rows = {static_cast<std::uint64_t>(waiting.last)};
  verdict.numbers = std::move(waiting.numbers);
  verdict.request = first_of(waiting);
  return verdict;
}

std::vector<Verdict> RollCall::complete() { return std::exchange(complete_, {}); }

std::string RollCall::missing(const Waiting& waiting) const {
  std::vector<int> places;
  for (std::size_t place = 0; place < ranks_.size(); ++place) {
    if (!waiting.numbers[place] && !joined_[place]) places.push_back(static_cast<int>(place));
  }
  return fmt::format("{} {} not asked for it", ranks_at(places),
                     places.size() == 1 ? "has" : "have");
}

std::vector<Verdict> RollCall::overdue(Time since) {
  std::vector<Verdict> verdicts;
  for (auto each = waiting_.begin(); each != waiting_.end();) {
    auto& [key, waiting] = *each;
    if (key.first == Act::join ||
        waiting.since > since) {  // who has joined waits for the others' work
      ++each;
      continue;
    }
    Verdict verdict;
    verdict.error = fmt::format("{} did not begin before its deadline: {}",
                                title(key.first, key.second), missing(waiting));
    verdict.numbers = std::move(waiting.numbers);
    verdict.request = first_of(waiting);
    verdicts.push_back(std::move(verdict));
    each = waiting_.erase(each);
  }
  return verdicts;
}

std::vector<std::string> RollCall::slow(Time since) {
  std::vector<std::string> lines;
  for (auto& [key, waiting] : waiting_) {
    if (key.first == Act::join || waiting.told || waiting.since > since) continue;
    waiting.told = true;
    lines.push_back(fmt::format("{} waits: {}", title(key.first, key.second), missing(waiting)));
  }
  return lines;
}

}  // namespace starling
