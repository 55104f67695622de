// Sessions that several threads share; each rank is a thread here, with threads of its own.
#include "job/shared_session.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>
#include <vector>

#include "exchange/allreduce.h"
#include "exchange/collectives.h"
#include "tests/error_of.h"
#include "tests/job/jobs.h"

namespace starling {
namespace {

constexpr Time kPatience = std::chrono::seconds(20);

Channel shared_channel(int id) { return {static_cast<std::uint32_t>(id), Purpose::control}; }

void live_shared(int size, const std::function<void(SharedSession&)>& life) {
  std::vector<std::jthread> threads;
  for (const Job& job : jobs(size)) {
    threads.emplace_back([&life, job] {
      SharedSession session(job);
      life(session);
      session.run(
          "parting", [&] { return barrier(session.comm(), shared_channel(0)); }, kPatience);
    });
  }
}

SharedSession::MakeTask summing(SharedSession& session, int channel, std::int64_t& value) {
  return [&session, channel, &value] {
    return ring_allreduce(session.comm(), shared_channel(channel), std::span(&value, 1),
                          Reduction::sum);
  };
}

TEST(SharedSession, RunsInTheThreadThatWaits) {
  live_shared(3, [&](SharedSession& session) {
    for (int round = 0; round < 50; ++round) {
      std::int64_t value = session.comm().rank() + round;
      session.run("a sum", summing(session, 1, value), kPatience);
      ASSERT_EQ(value, 3 + 3 * round);
    }
  });
}

TEST(SharedSession, GoesOnWhileNobodyWaits) {
  live_shared(3, [&](SharedSession& session) {
    std::int64_t value = session.comm().rank();
    const auto work = session.begin("a sum", summing(session, 1, value), kPatience);
    while (!work->done()) std::this_thread::yield();  // by the caretaker alone
    EXPECT_EQ(value, 3);
  });
}

// Which makes the caretaker patient, but not for ever.
TEST(SharedSession, GoesOnWhileNobodyWaitsAfterAllHaveWaited) {
  live_shared(3, [&](SharedSession& session) {
    for (int round = 0; round < 20; ++round) {
      std::int64_t value = session.comm().rank();
      const auto work = session.begin("a sum", summing(session, 1, value), kPatience);
      ASSERT_TRUE(session.wait(*work));
      ASSERT_EQ(value, 3);
    }
    for (int round = 0; round < 3; ++round) {
      std::int64_t value = session.comm().rank();
      const auto work = session.begin("a sum", summing(session, 1, value), kPatience);
      while (!work->done()) std::this_thread::yield();
      EXPECT_EQ(value, 3);
    }
  });
}

Task<> hear_oneself(Comm& comm, std::int64_t& value) {
  Receive hearing = comm.receive(comm.rank(), shared_channel(1), std::span(&value, 1));
  co_await hearing;
}

TEST(SharedSession, GivesUpWhatIsUnderWayThoughSomebodyHoldsIt) {
  std::int64_t value = 0;
  std::shared_ptr<SharedSession::Work> work;
  {
    SharedSession session(jobs(1)[0]);
    work = session.begin(
        "a letter to oneself", [&] { return hear_oneself(session.comm(), value); }, kPatience);
  }
  EXPECT_FALSE(work->done());
}

TEST(SharedSession, ServesSeveralThreadsAtOnce) {
  constexpr int kThreads = 4, kRounds = 100;
  live_shared(3, [&](SharedSession& session) {
    std::vector<std::jthread> threads;
    for (int thread = 1; thread <= kThreads; ++thread) {
      threads.emplace_back([&session, thread] {
        for (int round = 0; round < kRounds; ++round) {
          std::int64_t value = session.comm().rank() + round * thread;
          if (round % 2 == 0) {
            session.run("a sum", summing(session, thread, value), kPatience);
          } else {
            const auto work = session.begin("a sum", summing(session, thread, value), kPatience);
            ASSERT_TRUE(session.wait(*work));
          }
          ASSERT_EQ(value, 3 + 3 * round * thread);
        }
      });
    }
  });
}

TEST(SharedSession, ManyUnderWayEndInAnyOrder) {
  constexpr int kMany = 30;
  live_shared(2, [&](SharedSession& session) {
    std::vector<std::int64_t> values(kMany, session.comm().rank());
    std::vector<std::shared_ptr<SharedSession::Work>> works(kMany);
    std::vector<int> order(kMany);
    std::iota(order.begin(), order.end(), 0);
    if (session.comm().rank() == 1) std::ranges::reverse(order);
    for (int i : order) {
      const auto at = static_cast<std::size_t>(i);
      works[at] = session.begin("a sum", summing(session, i + 1, values[at]), kPatience);
    }
    for (const auto& work : works) EXPECT_TRUE(session.wait(*work));
    EXPECT_EQ(values, std::vector<std::int64_t>(kMany, 1));
  });
}

TEST(SharedSession, TellsWhatFailedAndGoesOn) {
  live_shared(2, [&](SharedSession& session) {
    std::int64_t value = 0;
    const auto nothing_comes = [&] {
      return [](Comm& comm, std::int64_t& v) -> Task<> {
        co_await comm.receive(1 - comm.rank(), shared_channel(7), object_bytes(v));
      }(session.comm(), value);
    };
    const Time soon = std::chrono::milliseconds(50);
    EXPECT_NE(error_of([&] {
                session.run("hearing a word", nothing_comes, soon);
              }).find("hearing a word did not finish"),
              std::string::npos);
    std::atomic<bool> ended = false;
    const auto work = session.begin("hearing a word", nothing_comes, soon);
    session.then(*work, [&] { ended = true; });
    EXPECT_TRUE(session.wait(*work));
    while (!ended) std::this_thread::yield();
    EXPECT_TRUE(work->error() != nullptr);
    std::int64_t one = 1;
    session.run("a sum", summing(session, 1, one), kPatience);
    EXPECT_EQ(one, 2);
  });
}

TEST(SharedSession, WaitsNoLongerThanAsked) {
  live_shared(2, [&](SharedSession& session) {
    std::int64_t value = 1;
    if (session.comm().rank() == 0) {
      const auto work = session.begin("a sum", summing(session, 1, value), kPatience);
      EXPECT_FALSE(session.wait(*work, std::chrono::milliseconds(20)));
      session.run(
          "a word", [&] { return barrier(session.comm(), shared_channel(2)); }, kPatience);
      EXPECT_TRUE(session.wait(*work, kPatience));
    } else {
      session.run(
          "a word", [&] { return barrier(session.comm(), shared_channel(2)); }, kPatience);
      session.run("a sum", summing(session, 1, value), kPatience);
    }
    EXPECT_EQ(value, 2);
  });
}

TEST(SharedSession, GivesBackWhatIsNotDoneInTime) {
  live_shared(2, [&](SharedSession& session) {
    std::int64_t value = 1;
    const auto word = [&] { return barrier(session.comm(), shared_channel(2)); };
    if (session.comm().rank() == 0) {
      const auto work = session.run("a sum", summing(session, 1, value), kPatience,
                                    std::chrono::milliseconds(20));
      ASSERT_TRUE(work != nullptr);
      EXPECT_TRUE(session.run("a word", word, kPatience, kPatience) == nullptr);
      EXPECT_TRUE(session.wait(*work, kPatience));
    } else {
      session.run("a word", word, kPatience);
      session.run("a sum", summing(session, 1, value), kPatience);
    }
    EXPECT_EQ(value, 2);
  });
}

TEST(SharedSession, LeavesTheLoopToWhoHoldsIt) {
  live_shared(2, [&](SharedSession& session) {
    constexpr int kMany = 50;
    std::vector<std::int64_t> values(kMany, 1);
    std::vector<std::shared_ptr<SharedSession::Work>> works(kMany);
    for (int i = 0; i < kMany; ++i) {
      const auto at = static_cast<std::size_t>(i);
      works[at] = session.begin("a sum", summing(session, i + 2, values[at]), kPatience);
      const SharedSession::Hold hold(session);  // while others are under way, or abandoned
      std::int64_t own = 1;
      session.session().run("a sum of our own", summing(session, 1, own)());
      if (!works[at]->done()) {
        EXPECT_NE(error_of([&] { session.wait(*works[at]); }).find("within another"),
                  std::string::npos);
      }
      EXPECT_NE(error_of([&] { const SharedSession::Hold again(session); }).find("within another"),
                std::string::npos);
      ASSERT_EQ(own, 2);
    }
    for (const auto& work : works) EXPECT_TRUE(session.wait(*work));
    EXPECT_EQ(values, std::vector<std::int64_t>(kMany, 2));
  });
}

TEST(SharedSession, EndsWithWorkUnderWay) {
  live_shared(1, [&](SharedSession&) {});
  std::vector<std::jthread> threads;
  for (const Job& job : jobs(2)) {
    threads.emplace_back([job] {
      SharedSession session(job);
      std::int64_t value = 0;
      const auto never = session.begin(
          "hearing a word",
          [&] {
            return [](Comm& comm, std::int64_t& v) -> Task<> {
              co_await comm.receive(1 - comm.rank(), shared_channel(7), object_bytes(v));
            }(session.comm(), value);
          },
          kPatience);
      session.run(
          "meeting", [&] { return barrier(session.comm(), shared_channel(1)); }, kPatience);
    });
  }
}

}  // namespace
}  // namespace starling
