// Ranks that are threads: they wait for each other in the middle of what they do, and none is left
// behind when a run ends badly.
#include "sim/rank_threads.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/error.h"
#include "runtime/race.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

constexpr Channel kChat{3, Purpose::weights, "a chat"};
const Network kChatNetwork{{1.25e8, 1ms}, {}};

Task<int> pass_on(Comm& comm, int value) {
  int got = -1;
  Receive receive = comm.receive(comm.ring(comm.rank() - 1), kChat, std::span(&got, 1));
  co_await comm.send(comm.ring(comm.rank() + 1), kChat, std::span(&value, 1));
  co_await receive;
  co_return got;
}

// On the stack while a rank waits, so that a thread that never unwinds is noticed.
struct OnStack {
  explicit OnStack(int& counter) : count(counter) { ++count; }
  ~OnStack() { --count; }
  int& count;
};

TEST(RankThreads, WaitInTheMiddleOfAFunction) {
  Cluster cluster(3, kChatNetwork);
  std::vector<int> values = {10, 20, 30};
  std::vector<Time> ends(3);
  cluster.run(in_threads([&](Comm& comm) {
    int& value = values[static_cast<std::size_t>(comm.rank())];
    for (int i = 0; i < 4; ++i) value = comm.loop().run(pass_on(comm, value)) + 1;
    ends[static_cast<std::size_t>(comm.rank())] = comm.loop().now();
  }));
  EXPECT_EQ(values, (std::vector<int>{34, 14, 24}));
  EXPECT_EQ(ends[0], ends[1]);
  EXPECT_GT(ends[0], 4ms);
  EXPECT_LT(ends[0], 5ms);
}

TEST(RankThreads, RunOneAtATimeAndAlwaysInTheSameOrder) {
  const auto story = [] {
    std::string said;
    Cluster cluster(3, kChatNetwork);
    cluster.run(in_threads([&](Comm& comm) {
      for (int i = 0; i < 3; ++i) {
        said += std::to_string(comm.rank());
        if (i < comm.rank()) comm.loop().run(sleep_until(comm.loop(), comm.loop().now() + 1ms));
        said += '.';
        comm.loop().run(pass_on(comm, 1));
      }
    }));
    return said;
  };
  const std::string once = story();
  EXPECT_EQ(once.size(), 18u);
  EXPECT_EQ(once.substr(0, 4), "0.12") << "each runs until it waits";
  for (int i = 0; i < 5; ++i) EXPECT_EQ(story(), once);
}

TEST(RankThreads, AnErrorOfATaskIsThrownWhereItWasAwaited) {
  Cluster cluster(2, kChatNetwork);
  std::string caught;
  const auto errors = cluster.try_run(in_threads([&](Comm& comm) {
    if (comm.rank() == 1) throw Error("rank 1 has had enough");
    try {
      comm.loop().run(pass_on(comm, 1));
    } catch (const PeerLost& lost) {
      caught = lost.what();
      throw;
    }
  }));
  EXPECT_EQ(caught, "rank 1 was lost in a chat (it ended before its time)");
  EXPECT_THROW(std::rethrow_exception(errors[0]), PeerLost);
  EXPECT_THROW(std::rethrow_exception(errors[1]), Error);
}

TEST(RankThreads, AWaitHasADeadlineOfVirtualTime) {
  Cluster cluster(2, kChatNetwork);
  const auto errors = cluster.try_run(in_threads([&](Comm& comm) {
    if (comm.rank() == 1) return;
    int got = 0;
    const auto wait = [](Comm& c, int& into) -> Task<> {
      co_await c.receive(1, kChat, std::span(&into, 1));
    };
    comm.loop().run(within(comm.loop(), 5s, "a chat", wait(comm, got)));
  }));
  EXPECT_THROW(std::rethrow_exception(errors[0]), DeadlineExceeded);
  EXPECT_EQ(cluster.loop().now(), 5s);
}

TEST(RankThreads, ACrashedRankUnwindsAndTheOthersSeeIt) {
  Cluster cluster(3, kChatNetwork);
  cluster.crash(1, 10ms);
  int on_stack = 0, went_on = 0;
  std::string caught;
  const auto errors = cluster.try_run(in_threads([&](Comm& comm) {
    const OnStack here(on_stack);
    try {
      while (true) comm.loop().run(pass_on(comm, 1));
    } catch (const PeerLost& lost) {
      if (comm.rank() == 0) caught = lost.what();
    } catch (const std::exception&) {  // whoever catches everything is ended all the same
      comm.loop().run(sleep_until(comm.loop(), 1s));
      ++went_on;
    }
  }));
  EXPECT_EQ(caught, "rank 1 was lost in a chat (it ended before its time)");
  EXPECT_EQ(on_stack, 0);
  EXPECT_EQ(went_on, 0);
  for (const std::exception_ptr& error : errors) EXPECT_EQ(error, nullptr);
}

TEST(RankThreads, ADeadlockIsSaidAndLeavesNoThreadBehind) {
  int on_stack = 0;
  {
    Cluster cluster(4, kChatNetwork);
    EXPECT_THROW(cluster.run(in_threads([&](Comm& comm) {
      const OnStack here(on_stack);
      comm.loop().run(pass_on(comm, 1));
      if (comm.rank() == 2) return;
      comm.loop().run(pass_on(comm, 1));
    })),
                 Error);
  }
  EXPECT_EQ(on_stack, 0);
}

TEST(RankThreads, WhatAProcessHasOneOfIsExchangedForTheRanks) {
  int global = 100;
  std::vector<int> own = {0, 10, 20};
  Cluster cluster(3, kChatNetwork);
  cluster.run(in_threads(
      [&](Comm& comm) {
        for (int i = 1; i <= 3; ++i) {
          EXPECT_EQ(global, comm.rank() * 10 + i - 1);
          ++global;
          comm.loop().run(pass_on(comm, 1));
        }
      },
      [&](int rank) { std::swap(global, own[static_cast<std::size_t>(rank)]); }));
  EXPECT_EQ(global, 100);
  EXPECT_EQ(own, (std::vector<int>{3, 13, 23}));
}

TEST(RankThreads, AWorldInsideARankIsAWorldOfItsOwn) {
  Cluster outer(2, kChatNetwork);
  std::vector<int> sums(2);
  outer.run(in_threads([&](Comm& comm) {
    Cluster inner(2, kChatNetwork);
    int sum = 0;
    inner.run(in_threads(
        [&](Comm& other) { sum += other.loop().run(pass_on(other, other.rank() + 1)); }));
    sums[static_cast<std::size_t>(comm.rank())] = sum + comm.loop().run(pass_on(comm, 10));
  }));
  EXPECT_EQ(sums, (std::vector<int>{13, 13}));
}

}  // namespace
}  // namespace starling
