#include "strategy/progress.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>

#include "base/error.h"
#include "runtime/group.h"
#include "sim/cluster.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

// Workers that count steps, each in its own time, until all is done.
struct Counters {
  Counters(int size, std::uint64_t batches, std::uint64_t stride)
      : cluster(size, {{1e9, 100us}, {}}), steps(static_cast<std::size_t>(size)) {
    for (int rank = 0; rank < size; ++rank) {
      Group(cluster.comm(rank)).contain_losses();
      progress.push_back(std::make_unique<Progress>(cluster.comm(rank), batches, stride));
    }
  }
  Task<> work(Comm& comm, Time step) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    while (!progress[rank]->over()) {
      co_await sleep_until(comm.loop(), comm.loop().now() + step);
      progress[rank]->did(++steps[rank]);
    }
    progress[rank]->end();
    co_await progress[rank]->settle();
  }
  std::uint64_t all() const { return std::accumulate(steps.begin(), steps.end(), 0ull); }

  Cluster cluster;
  std::vector<std::uint64_t> steps;
  std::vector<std::unique_ptr<Progress>> progress;
};

TEST(Progress, AllStopWhenTogetherTheyHaveDoneTheWork) {
  for (int size : {1, 2, 5, 8}) {
    for (std::uint64_t stride : {1, 7}) {
      Counters counters(size, 600, stride);
      counters.cluster.run(
          [&](Comm& comm) { return counters.work(comm, 3ms * (comm.rank() + 1)); });
      EXPECT_GE(counters.all(), 600u);
      EXPECT_LE(counters.all(), 600 + static_cast<std::uint64_t>(size) * (stride + 1));
      if (size > 1) {
        EXPECT_GT(counters.steps[0], 3 * counters.steps.back() / 2) << "who is faster does more";
      }
    }
  }
}

TEST(Progress, WhatALostWorkerHasDoneCountsAndTheOthersDoTheRest) {
  Counters counters(3, 300, 1);
  counters.cluster.crash(1, 100ms);
  counters.cluster.run([&](Comm& comm) { return counters.work(comm, 3ms); });
  EXPECT_GE(counters.all(), 300u);
  EXPECT_LE(counters.all(), 306u);
  EXPECT_LT(counters.steps[1], 40u);
}

TEST(Progress, OneWhoEndsEndsItForAll) {
  Counters counters(3, 0, 1);  // there is no end of the work itself
  const auto work = [&](Comm& comm) {
    struct Ender {
      static Task<> end(Counters& c, Comm& comm) {
        co_await sleep_until(comm.loop(), 50ms);
        c.progress[2]->end();
        co_await c.progress[2]->settle();
      }
    };
    return comm.rank() == 2 ? Ender::end(counters, comm) : counters.work(comm, 3ms);
  };
  counters.cluster.run(work);
  for (std::size_t rank : {0, 1}) {
    EXPECT_GE(counters.steps[rank], 16u);
    EXPECT_LE(counters.steps[rank], 18u);
  }
}

TEST(Progress, KnowsTheSlowestOfThoseWhoAreStillAtIt) {
  Counters counters(4, 0, 1);
  const std::vector<int> others{1, 2, 3};
  const auto sleep = [&] {
    counters.cluster.run(
        [&](Comm& comm) { return sleep_until(comm.loop(), comm.loop().now() + 10ms); });
  };
  counters.progress[1]->did(5);
  counters.progress[2]->did(3);
  counters.progress[3]->did(9);
  sleep();
  EXPECT_EQ(counters.progress[0]->slowest_of(others), 3u);
  EXPECT_EQ(counters.progress[0]->done_by_all(), 17u);
  counters.progress[2]->end();
  sleep();
  EXPECT_EQ(counters.progress[0]->slowest_of(others), 5u);
  counters.cluster.crash(1, counters.cluster.loop().now() + 1ms);
  sleep();
  EXPECT_EQ(counters.progress[0]->slowest_of(others), 9u);
  EXPECT_GT(counters.progress[0]->slowest_of({}), 1'000'000u) << "nobody to wait for";
}

TEST(Progress, ALossIsNewsToWhoWaitsForTheLost) {
  Counters counters(2, 0, 1);
  counters.cluster.crash(1, 5ms);
  const auto wait = [&](Comm& comm) {
    struct Waiter {
      static Task<> wait(Progress& progress) {
        const std::vector<int> other{1};
        while (progress.slowest_of(other) < 1) co_await progress.news().rung();
      }
    };
    return comm.rank() == 0 ? Waiter::wait(*counters.progress[0]) : sleep_until(comm.loop(), 1s);
  };
  counters.cluster.run(wait);
  EXPECT_LT(counters.cluster.loop().now(), 1s);
}

TEST(Progress, SaysLittle) {
  const auto bytes = [](std::uint64_t stride) {
    Counters counters(2, 1000, stride);
    counters.cluster.run([&](Comm& comm) { return counters.work(comm, 3ms); });
    return counters.cluster.comm(0).ledger().total(Direction::sent).payload;
  };
  EXPECT_LE(bytes(1), 8u * 502);
  EXPECT_LE(bytes(10), 8u * 52);
}

}  // namespace
}  // namespace starling
