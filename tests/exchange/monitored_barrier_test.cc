#include "exchange/monitored_barrier.h"

#include <gtest/gtest.h>

#include <map>

#include "runtime/race.h"
#include "sim/cluster.h"
#include "tests/exchange/world.h"

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

Task<> come_last(Group group, std::int64_t& came, std::int64_t& left) {
  const Time delay = group.rank() == group.size() - 1 ? 100ms : 0ms;
  co_await sleep_until(group.loop(), group.loop().now() + delay);
  came = World::now(group.loop()).count();
  std::vector<int> missing;
  co_await monitored_barrier(group, kBarrier, group.loop().now() + 60s, true, missing);
  left = World::now(group.loop()).count();
  EXPECT_TRUE(missing.empty());
}

TEST(MonitoredBarrier, LetsNobodyGoBeforeAllHaveCome) {
  for (int n : {1, 2, 5, 8}) {
    if (!World::can_have(n)) continue;
    std::vector<std::vector<std::int64_t>> came(static_cast<std::size_t>(n), {0}), left(came);
    World world(n);
    world.run([&](Comm& comm) {
      const auto rank = static_cast<std::size_t>(comm.rank());
      return come_last(comm, came[rank][0], left[rank][0]);
    });
    world.tell_all(came);
    for (const std::size_t rank : world.known()) EXPECT_GE(left[rank], came.back()) << n;
  }
}

TEST(SimulatedMonitoredBarrier, NamesWhoHasNotComeOnEveryRank) {
  const Seen seen = meet(5, {{2, 10s}, {4, 20s}}, true);
  for (const auto& missing : seen.missing) EXPECT_EQ(missing, (std::vector<int>{2, 4}));
  EXPECT_GE(seen.left[0], kPatience);
  EXPECT_LT(seen.left[1], kPatience + 1s);
}

TEST(SimulatedMonitoredBarrier, NamesTheFirstIfThatIsEnough) {
  const Seen seen = meet(5, {{2, 10s}, {4, 20s}}, false);
  for (const auto& missing : seen.missing) EXPECT_EQ(missing, (std::vector<int>{2}));
}

TEST(SimulatedMonitoredBarrier, MissesTheOneWhoCounts) {
  const Seen seen = meet(3, {{0, 10s}}, true);
  EXPECT_EQ(seen.missing[1], (std::vector<int>{0}));
  EXPECT_EQ(seen.missing[2], (std::vector<int>{0}));
}

}  // namespace
}  // namespace starling
