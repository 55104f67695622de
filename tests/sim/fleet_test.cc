// Processes on simulated hosts: each fault does what its name says to them, too.
#include "sim/fleet.h"

#include <gtest/gtest.h>

#include <array>
#include <sstream>

#include "base/error.h"
#include "runtime/race.h"

namespace starling {
namespace {

using namespace std::chrono_literals;
using End = Fleet::Life::End;

constexpr std::uint32_t kPort = 100;

// Host 0 answers every byte; the others send one every 100 ms for a second and note the answers.
struct Echo {
  struct Answer {
    int host, life;
    Time when;
    Time by_own_clock;
  };
  std::vector<Answer> answers;
  int connections = 0;
};

Task<> answer(Loop& loop, std::unique_ptr<Link> link) {
  std::array<std::byte, 1> byte;
  try {
    while (true) {
      co_await read_exactly(loop, *link, byte);
      co_await write_all(loop, *link, byte);
    }
  } catch (const HungUp&) {
  }
}

Task<> answer_all(SimHost& host, Echo& echo) {
  const std::unique_ptr<Listener> listener = host.listen({}, kPort);
  std::vector<std::unique_ptr<Running>> talks;
  while (true) {
    Task<Listener::Caller> accepting = listener->accept();
    Listener::Caller caller = co_await accepting;
    ++echo.connections;
    talks.push_back(std::make_unique<Running>(answer(host.loop(), std::move(caller.link))));
  }
}

Task<> ask(SimLoop& world, SimHost& host, Echo& echo) {
  Task<Host::Answer> calling = host.call(host.find("host 0:100"));
  const Host::Answer answer = co_await calling;
  if (!answer.link) throw Error("no answer");
  std::array<std::byte, 1> byte;
  for (int i = 0; i < 10; ++i) {
    co_await write_all(host.loop(), *answer.link, byte);
    co_await read_exactly(host.loop(), *answer.link, byte);
    echo.answers.push_back({host.number(), host.life(), world.now(), host.loop().now()});
    co_await sleep_until(host.loop(), host.loop().now() + 100ms);
  }
}

Task<> ask_or_answer(SimLoop& world, SimHost& host, Echo& echo) {
  if (host.number() != 0) {
    co_await ask(world, host, echo);
  } else {
    Task<int> contest = race(answer_all(host, echo), host.told_to_leave());
    co_await contest;
  }
}

struct Told {
  Echo echo;
  std::vector<Fleet::Life> lives;
  std::uint64_t trace;

  // When the answers came, of which the one life after the other is a list.
  std::vector<Time> answers(int host, int life = 0) const {
    std::vector<Time> times;
    for (const Echo::Answer& each : echo.answers) {
      if (each.host == host && each.life == life) times.push_back(each.when);
    }
    return times;
  }
};

Told tell(Faults faults, Weather weather = {}) {
  Told told;
  Fleet fleet(3, std::move(faults), weather);
  told.lives =
      fleet.run([&](SimHost& host) { return ask_or_answer(fleet.loop(), host, told.echo); }, 10s);
  told.trace = fleet.hub().trace();
  return told;
}

TEST(Fleet, RunsAProgramOnEachHostUntilTheDeadline) {
  const Told told = tell({});
  ASSERT_EQ(told.lives.size(), 3u);
  EXPECT_EQ(told.lives[0].end, End::none);
  for (const std::size_t host : {1u, 2u}) {
    EXPECT_EQ(told.lives[host].end, End::done);
    EXPECT_EQ(told.lives[host].until, 1s);
  }
  EXPECT_EQ(told.answers(1).size(), 10u);
}

TEST(Fleet, ACrashedProcessIsGoneAndHangsUp) {
  Faults faults;
  faults.crashes = {{0, 450ms}};
  const Told told = tell(faults);
  ASSERT_EQ(told.lives.size(), 3u);
  EXPECT_EQ(told.lives[0].end, End::crashed);
  EXPECT_EQ(told.lives[0].until, 450ms);
  EXPECT_EQ(told.lives[1].end, End::failed);
  EXPECT_EQ(told.answers(1).size(), 5u);
}

// A link whose owner says a last word when it is destroyed.
struct Talker {
  ~Talker() { write_at_once(*link, std::array<std::byte, 1>()); }
  std::unique_ptr<Link> link;
};

Task<> say_last_words_to(SimHost& host, std::string& heard) {
  if (host.number() == 0) {
    const std::unique_ptr<Listener> listener = host.listen({}, kPort);
    Task<Listener::Caller> accepting = listener->accept();
    const Listener::Caller caller = co_await accepting;
    co_await until_readable(host.loop(), *caller.link);
    std::array<std::byte, 1> byte;
    heard = caller.link->read_some(Bytes(byte)).bytes > 0 ? "a word" : "nothing";
  } else {
    Task<Host::Answer> calling = host.call(host.find("host 0:100"));
    Host::Answer answer = co_await calling;
    const Talker talker{std::move(answer.link)};
    co_await sleep_until(host.loop(), 2s);
  }
}

TEST(Fleet, ACrashedProcessHasNoLastWord) {
  for (const bool crashes : {false, true}) {
    Faults faults;
    if (crashes) faults.crashes = {{1, 1s}};
    Fleet fleet(2, faults);
    std::string heard;
    fleet.run([&](SimHost& host) { return say_last_words_to(host, heard); }, 10s);
    EXPECT_EQ(heard, crashes ? "nothing" : "a word");
  }
}

TEST(Fleet, ARestartedProcessBeginsAnewAndIsReachedAgain) {
  Faults faults;
  faults.crashes = {{1, 450ms}, {1, 2550ms}};
  faults.restarts = {{1, 2s}, {1, 4s}, {2, 5s}};
  const Told told = tell(faults);
  ASSERT_EQ(told.lives.size(), 5u) << "who has ended well is not started again";
  EXPECT_EQ(told.lives[3].host, 1);
  EXPECT_EQ(told.lives[3].number, 1);
  EXPECT_EQ(told.lives[3].from, 2s);
  EXPECT_EQ(told.lives[3].end, End::crashed);
  EXPECT_EQ(told.lives[4].end, End::done);
  EXPECT_EQ(told.answers(1, 0).size(), 5u);
  EXPECT_EQ(told.answers(1, 1).size(), 6u);
  EXPECT_EQ(told.answers(1, 2).size(), 10u);
  EXPECT_EQ(told.echo.connections, 4);
}

TEST(Fleet, WhoIsToldToLeaveEndsAsItLikes) {
  Faults faults;
  faults.leaves = {{0, 2s}, {1, 300ms}};
  faults.restarts = {{0, 3s}};
  faults.crashes = {{0, 4s}};
  const Told told = tell(faults);
  ASSERT_EQ(told.lives.size(), 4u);
  EXPECT_EQ(told.lives[0].end, End::done);
  EXPECT_EQ(told.lives[0].until, 2s);
  EXPECT_EQ(told.lives[1].until, 1s) << "it does not listen to that";
  EXPECT_EQ(told.lives[3].host, 0);
  EXPECT_EQ(told.lives[3].end, End::crashed);
}

TEST(Fleet, AFailureIsThrownIntoTheProgram) {
  Faults faults;
  faults.failures = {{1, 350ms}};
  const Told told = tell(faults);
  EXPECT_EQ(told.lives[1].end, End::failed);
  EXPECT_EQ(told.lives[1].until, 350ms);
  EXPECT_EQ(told.answers(1).size(), 4u);
}

TEST(Fleet, AStoppedProcessGoesOnWhereItWas) {
  Faults faults;
  faults.pauses = {{{350ms, 3s}, 1}, {{450ms, 2s}, 1}};
  const Told told = tell(faults);
  EXPECT_EQ(told.lives[1].end, End::done);
  const std::vector<Time> answers = told.answers(1);
  ASSERT_EQ(answers.size(), 10u);
  EXPECT_EQ(answers[3], 300ms);
  EXPECT_EQ(answers[4], 3s);
  EXPECT_EQ(answers[5], 3s + 100ms);
  EXPECT_EQ(told.answers(2).back(), 900ms);
}

TEST(Fleet, TheKernelOfAStoppedProcessAnswersForIt) {
  Faults faults;
  faults.pauses = {{{0ms, 3s}, 0}};
  const Told told = tell(faults);
  for (const std::size_t host : {1u, 2u}) {
    EXPECT_EQ(told.lives[host].end, End::done) << "its call was answered";
    EXPECT_EQ(told.answers(static_cast<int>(host)).front(), 3s);
  }
}

TEST(Fleet, AStoppedProcessCanBeKilled) {
  Faults faults;
  faults.pauses = {{{350ms, 5s}, 1}};
  faults.crashes = {{1, 1s}};
  faults.restarts = {{1, 2s}};
  const Told told = tell(faults);
  EXPECT_EQ(told.lives[1].until, 1s);
  ASSERT_EQ(told.lives.size(), 4u);
  EXPECT_EQ(told.lives[3].until, 3s) << "the new one is not stopped";
}

TEST(Fleet, APartitionHoldsBackWhatComesOnItsWay) {
  for (const Faults::Way way : {Faults::Way::both, Faults::Way::out, Faults::Way::in}) {
    Faults faults;
    faults.partitions = {{{1}, 350ms, 2s, way}};
    const Told told = tell(faults);
    const std::vector<Time> answers = told.answers(1);
    ASSERT_EQ(answers.size(), 10u);
    EXPECT_EQ(answers[3], 300ms);
    EXPECT_EQ(answers[4], 2s);
    EXPECT_EQ(told.answers(2).back(), 900ms);
  }
}

TEST(Fleet, APartitionOfTwoLeavesTheOthersAlone) {
  Faults faults;
  faults.partitions = {{{1}, 350ms, 2s, Faults::Way::both, {2}}};
  const Told told = tell(faults);
  EXPECT_EQ(told.answers(1).back(), 900ms);
}

TEST(Fleet, PartitionsThatOverlapEndWithTheLast) {
  Faults faults;
  faults.partitions = {{{1}, 350ms, 2s}, {{0}, 450ms, 1s}};
  const Told told = tell(faults);
  EXPECT_EQ(told.answers(1)[4], 2s);
  EXPECT_EQ(told.answers(2)[4], 400ms);
  EXPECT_EQ(told.answers(2)[5], 1s);
}

TEST(Fleet, DelaysAndSlowLinksAreOfOneWay) {
  Faults faults;
  faults.delays = {{{350ms, 450ms}, 1, 0, 30ms}};
  faults.slow_links = {{{350ms, 450ms}, 0, 2, 100.0}};  // a byte takes 10 ms
  const Told told = tell(faults);
  EXPECT_EQ(told.answers(1)[4], 430ms);
  EXPECT_EQ(told.answers(1)[5], 530ms);
  EXPECT_EQ(told.answers(2)[4], 410ms);
  EXPECT_EQ(told.answers(2)[5], 510ms);
}

TEST(Fleet, AClockThatDriftsIsItsOwn) {
  Faults faults;
  faults.drifts = {{1, 100'000}, {2, -200'000}};
  const Told told = tell(faults);
  for (const Echo::Answer& each : told.echo.answers) {
    const double rate = each.host == 1 ? 1.1 : 0.8;
    EXPECT_NEAR(static_cast<double>(each.by_own_clock.count()),
                rate * static_cast<double>(each.when.count()), 1);
  }
  EXPECT_NEAR(static_cast<double>(told.lives[1].until.count()), 1e9 / 1.1, 10);
  EXPECT_NEAR(static_cast<double>(told.lives[2].until.count()), 1e9 / 0.8, 10);
}

TEST(Fleet, WhatIsDrawnIsTheSameEachTime) {
  const Weather weather{.least_delay = 1ms, .most_delay = 5ms, .short_share = 0.3};
  int unlike = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Faults faults = draw_faults(seed, 3, 3s);
    std::ostringstream text;
    text << faults;
    SCOPED_TRACE(text.str());
    std::ostringstream again;
    again << draw_faults(seed, 3, 3s);
    EXPECT_EQ(again.str(), text.str());
    EXPECT_LE(faults.last(), 3s);
    const Told told = tell(faults, weather);
    EXPECT_EQ(told.trace, tell(faults, weather).trace);
    Faults none;
    none.seed = seed;
    unlike += told.trace != tell(none, weather).trace ? 1 : 0;
  }
  EXPECT_GT(unlike, 100);
}

}  // namespace
}  // namespace starling
