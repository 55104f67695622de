// Sessions, each in a thread of its own, as they are in processes of their own.
#include "job/session.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "exchange/allreduce.h"
#include "exchange/collectives.h"
#include "tests/error_of.h"
#include "tests/job/jobs.h"

namespace starling {
namespace {

constexpr Channel kOne{1, Purpose::control}, kTwo{2, Purpose::control};

// Opens a session for each rank, in its own thread, and calls life(session).
void live(const std::vector<Job>& all, const std::function<void(Session&)>& life) {
  std::vector<std::jthread> threads;
  for (const Job& job : all) {
    threads.emplace_back([&life, job] {
      Session session(job);
      life(session);
    });
  }
}

TEST(Session, JoinsTheJobAndRunsTasks) {
  std::vector<int> sums(3);
  live(jobs(3), [&](Session& session) {
    int& value = sums[static_cast<std::size_t>(session.comm().rank())];
    value = session.comm().rank() + 1;
    session.run("a sum",
                ring_allreduce(session.comm(), kOne, std::span(&value, 1), Reduction::sum));
    session.run("parting", barrier(session.comm(), kTwo));
  });
  EXPECT_EQ(sums, (std::vector{6, 6, 6}));
}

TEST(Session, NamesWhatDidNotFinishInTime) {
  live(jobs(2, std::chrono::seconds(1)), [](Session& session) {
    if (session.comm().rank() == 1) {
      session.run("sleeping", sleep_until(session.loop(),
                                          session.loop().now() + std::chrono::milliseconds(500)));
      return;
    }
    int value = 0;
    const std::string error = error_of([&] {
      session.run("waiting for a word", [](Session& s, int& v) -> Task<> {
        co_await s.comm().receive(1, kOne, object_bytes(v));
      }(session, value));
    });
    EXPECT_NE(error, "no error");
  });
}

// The work of two threads of each rank, at the same time, in their session's thread.
TEST(Session, DoesWhatOtherThreadsSubmit) {
  constexpr int kRanks = 3, kRounds = 50;
  std::vector<std::vector<std::int64_t>> sums(kRanks, std::vector<std::int64_t>(2, 0));
  live(jobs(kRanks), [&](Session& session) {
    const int rank = session.comm().rank();
    std::stop_source stop;
    std::jthread others([&, rank] {
      std::vector<std::jthread> two;
      for (const Channel channel : {kOne, kTwo}) {
        two.emplace_back([&, rank, channel] {
          std::int64_t& value = sums[static_cast<std::size_t>(rank)][channel.id - 1];
          for (int round = 0; round < kRounds; ++round) {
            value = rank + round;
            session
                .submit("a sum",
                        [&session, &value, channel] {
                          return ring_allreduce(session.comm(), channel, std::span(&value, 1),
                                                Reduction::sum);
                        })
                .get();
          }
        });
      }
      two.clear();  // both are done
      session.submit("parting", [&session] { return barrier(session.comm(), kOne); }).get();
      stop.request_stop();
    });
    session.serve(stop.get_token());
  });
  for (const auto& each : sums) {
    EXPECT_EQ(each, std::vector<std::int64_t>(2, 3 * (kRounds - 1) + 3));
  }
}

Task<> fails() {
  throw Error("it was told to");
  co_return;
}

TEST(Session, GivesTheErrorToWhoeverSubmitted) {
  live(jobs(1), [](Session& session) {
    std::stop_source stop;
    std::jthread other([&] {
      auto future = session.submit("failing", fails);
      EXPECT_EQ(error_of([&] { future.get(); }), "it was told to");
      stop.request_stop();
    });
    session.serve(stop.get_token());
  });
}

TEST(Session, GivesUpWhatIsNotDoneWhenItIsAskedToStop) {
  live(jobs(1), [](Session& session) {
    std::stop_source stop;
    stop.request_stop();
    auto future = session.submit("sleeping", [&session] {
      return sleep_until(session.loop(), session.loop().now() + std::chrono::hours(1));
    });
    session.serve(stop.get_token());
    session.loop().poll();  // what was submitted begins only now
    session.serve(stop.get_token());
    EXPECT_THROW(future.get(), std::future_error);
  });
}

}  // namespace
}  // namespace starling
