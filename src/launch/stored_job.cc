#include "launch/stored_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "job/ask_member.h"

namespace starling {

namespace {

constexpr std::size_t kMostAsked = 8;  // one that is there is enough
constexpr auto kForLeasesToEnd = kLeaseTime + std::chrono::seconds(5);
constexpr std::chrono::milliseconds kStoreLookEvery{250};

struct Asked {
  std::optional<FoundMember> member;
  std::string why;  // the last that did not answer
};

Asked ask_any(const std::vector<std::string>& doors, const Job& job) {
  Asked asked;
  for (std::size_t i = 0; i < std::min(doors.size(), kMostAsked) && !asked.member; ++i) {
    try {
      asked.member = FoundMember{doors[i], ask_member(job, doors[i], Message::Kind::describe)};
    } catch (const Error& error) {
      asked.why = error.what();
    }
  }
  return asked;
}

std::string members_in_words(std::size_t count) {
  return fmt::format("{} member{}", count, count == 1 ? "" : "s");
}

}  // namespace

// Those under a lease first: of the roster only who has not been able to renew one may be left.
FoundMember find_member(RosterStore& store, const Job& job) {
  const KeptJob kept = store.read().job;
  if (kept.start == 0) {
    throw Error(fmt::format("the store {} knows of no job", store.url()),
                "start it with the same --store");
  }
  if (kept.ended) throw Error(fmt::format("the job at {} has come to its end", store.url()));
  std::vector<std::string> doors = store.doors();
  if (doors.empty()) doors = kept.doors;
  Asked asked = ask_any(doors, job);
  if (asked.member) return *asked.member;
  throw Error(fmt::format("nobody is there of the job at {}, which had {}{}", store.url(),
                          members_in_words(kept.doors.size()),
                          asked.why.empty() ? "" : fmt::format(" ({})", asked.why)),
              "start it again with the same --store");
}

// Who was killed is known to the store until its lease ends.
RosterStore::Found find_remains(RosterStore& store, const Job& job) {
  const auto deadline = std::chrono::steady_clock::now() + kForLeasesToEnd;
  store.read();  // throws if the secret is another
  for (bool is_first = true;; is_first = false) {
    const std::vector<std::string> doors = store.doors();
    if (doors.empty()) return store.read();
    if (is_first && ask_any(doors, job).member) {
      throw Error(
          fmt::format("the job at {} runs, with {}", store.url(), members_in_words(doors.size())),
          "`starling join --store` adds to them");
    }
    if (std::chrono::steady_clock::now() > deadline) {
      throw Error(fmt::format("the job at {} has members that cannot be reached from here, at {}",
                              store.url(), doors[0]),
                  "end them, or use another prefix");
    }
    std::this_thread::sleep_for(kStoreLookEvery);
  }
}

std::uint64_t enter_start(RosterStore& store, const RosterStore::Found& found,
                          const std::string& run) {
  const KeptJob job{found.job.start + 1, 0, {}, run, false};
  if (store.write(job, found.revision)) return job.start;
  throw Error(fmt::format("somebody else has just started the job at {}", store.url()),
              "one is enough");
}

}  // namespace starling
