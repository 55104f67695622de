#include "exchange/monitored_barrier.h"

#include <gtest/gtest.h>

#include <map>

#include "runtime/race.h"
#include "sim/cluster.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

constexpr Channel kBarrier{1, Purpose::control, "a monitored barrier"};
constexpr Time kPatience = 2s;  // of each, from when it comes

Task<> come(Group group, Time at, bool name_all, std::vector<int>& missing, Time& left) {
  co_await sleep_until(group.loop(), at);
  Task<> coming = monitored_barrier(group, kBarrier, at + kPatience, name_all, missing);
  co_await coming;
  left = group.loop().now();
  co_await sleep_until(group.loop(), 60s);  // whoever is late finds the others here
}

struct Seen {
  std::vector<std::vector<int>> missing;
  std::vector<Time> left;
};

// Everybody comes at once but those, who come at their time.
Seen meet(int n, const std::map<int, Time>& late, bool name_all) {
  Seen seen;
  seen.missing.resize(static_cast<std::size_t>(n));
  seen.left.resize(static_cast<std::size_t>(n));
  Cluster cluster(n);
  cluster.run([&](Comm& comm) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    const auto found = late.find(comm.rank());
    return come(comm, found == late.end() ? 0s : found->second, name_all, seen.missing[rank],
                seen.left[rank]);
  });
  return seen;
}

TEST(MonitoredBarrier, LetsNobodyGoBeforeAllHaveCome) {
  for (int n : {1, 2, 5, 8}) {
    const Seen seen = meet(n, {{n - 1, 1s}}, true);
    for (const auto& missing : seen.missing) EXPECT_TRUE(missing.empty());
    for (const Time left : seen.left) EXPECT_GE(left, 1s);
  }
}

TEST(MonitoredBarrier, NamesWhoHasNotComeOnEveryRank) {
  const Seen seen = meet(5, {{2, 10s}, {4, 20s}}, true);
  for (const auto& missing : seen.missing) EXPECT_EQ(missing, (std::vector<int>{2, 4}));
  EXPECT_GE(seen.left[0], kPatience);
  EXPECT_LT(seen.left[1], kPatience + 1s);
}

TEST(MonitoredBarrier, NamesTheFirstIfThatIsEnough) {
  const Seen seen = meet(5, {{2, 10s}, {4, 20s}}, false);
  for (const auto& missing : seen.missing) EXPECT_EQ(missing, (std::vector<int>{2}));
}

TEST(MonitoredBarrier, MissesTheOneWhoCounts) {
  const Seen seen = meet(3, {{0, 10s}}, true);
  EXPECT_EQ(seen.missing[1], (std::vector<int>{0}));
  EXPECT_EQ(seen.missing[2], (std::vector<int>{0}));
}

}  // namespace
}  // namespace starling
