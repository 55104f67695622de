// Whom a rank takes for lost, and when it must not go on itself.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/group.h"
#include "tests/net/channels.h"
#include "tests/net/flock.h"

namespace starling {
namespace {

// What rank 0 gets to hear when it waits for a rank.
std::string outcome_at(Flock& flock, int rank, int of) {
  std::string outcome;
  flock.loop().run(within(flock.loop(), flock.loop().now() + std::chrono::seconds(20), "the test",
                          receive_number(flock.comm(rank), of, outcome)));
  return outcome;
}

void end_by_exception(Flock& flock, int rank) {
  try {
    const Membership ending(std::move(flock.member(rank)));
    throw Error("the data is bad");
  } catch (const Error&) {
  }
  flock.leave(rank);
}

TEST(Liveness, AWorkerThatEndsByAnExceptionIsLost) {
  for (const bool contained : {false, true}) {
    Flock flock(3);
    for (int rank = 0; contained && rank < 3; ++rank) Group(flock.comm(rank)).contain_losses();
    end_by_exception(flock, 1);
    EXPECT_EQ(outcome_at(flock, 0, 1), "lost 1");
    EXPECT_TRUE(flock.comm(0).is_lost(1));
  }
}

TEST(Liveness, AWorkerThatOwesAFinishIsLostWhenItGoes) {
  Flock flock(3);
  for (int rank = 0; rank < 3; ++rank) Group(flock.comm(rank)).contain_losses();
  flock.comm(1).owe_a_finish(true);
  flock.comm(2).owe_a_finish(true);
  flock.comm(2).owe_a_finish(false);
  flock.leave(1);
  flock.leave(2);
  EXPECT_EQ(outcome_at(flock, 0, 1), "lost 1");
  EXPECT_EQ(outcome_at(flock, 0, 2), "lost 2") << "what it would have sent will not come";
  EXPECT_TRUE(flock.comm(0).is_lost(1));
  EXPECT_FALSE(flock.comm(0).is_lost(2)) << "it has left in good order";
}

TEST(Liveness, AFailureIsBlamedOnTheOneWhoFailedNotOnWhoTellsOfIt) {
  Flock flock(4);
  end_by_exception(flock, 2);
  // Rank 1 gives up because of rank 2, and rank 3 hears of that before it looks at rank 2.
  EXPECT_EQ(outcome_at(flock, 1, 0), "lost 2");
  end_by_exception(flock, 1);
  EXPECT_EQ(outcome_at(flock, 3, 1), "lost 2");
  EXPECT_EQ(outcome_at(flock, 0, 3), "lost 2");
}

// The rank's process is there, as its door tells, but its connections are not: as a cut link that
// has healed leaves it.
TEST(Liveness, WhoHasLostMostOthersButNotTheirDoorsIsCutOff) {
  for (const bool contained : {false, true}) {
    Flock flock(4);
    for (int rank = 0; contained && rank < 4; ++rank) Group(flock.comm(rank)).contain_losses();
    for (int other : {0, 1, 3}) ::shutdown(flock.link(2, other).descriptor(), SHUT_RDWR);
    EXPECT_EQ(outcome_at(flock, 2, 0),
              "cut off from rank 0, 1, 3; as these may go on without it, it stops; see to its "
              "network");
    EXPECT_THROW(flock.comm(2).check_not_cut_off(), CutOff);
    EXPECT_EQ(outcome_at(flock, 0, 2), "lost 2");
    EXPECT_NO_THROW(flock.comm(0).check_not_cut_off());
  }
}

TEST(Liveness, WhoHasOutlivedTheOthersGoesOn) {
  Flock flock(4);
  for (int rank = 0; rank < 4; ++rank) Group(flock.comm(rank)).contain_losses();
  for (int rank : {0, 1, 2}) {
    flock.comm(rank).owe_a_finish(true);
    flock.leave(rank);
    EXPECT_EQ(outcome_at(flock, 3, rank), "lost " + std::to_string(rank));
  }
  EXPECT_NO_THROW(flock.comm(3).check_not_cut_off());
}

// Its kernel keeps the window shut, but answers.
TEST(Liveness, APeerThatDoesNotReadForLongIsNotLost) {
  Flock flock(2);
  std::vector<float> out(4'000'000, 1.0f), in(4'000'000);
  auto send = flock.comm(0).send(1, kOne, std::span(out));
  TcpLoop& loop = flock.loop();
  loop.run(sleep_until(loop, loop.now() + std::chrono::seconds(12)));
  auto receive = flock.comm(1).receive(0, kOne, std::span(in));
  loop.run(within(loop, loop.now() + std::chrono::seconds(20), "the test",
                  [](Receive& all) -> Task<> { co_await all; }(receive)));
  EXPECT_EQ(in, out);
}

}  // namespace
}  // namespace starling
