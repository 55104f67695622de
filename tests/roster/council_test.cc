// A council whose members are asked as each test says: some answer, some are silent, some are dead.
#include "roster/council.h"

#include <gtest/gtest.h>

#include <array>
#include <list>
#include <map>
#include <memory>

#include "base/error.h"
#include "runtime/all.h"
#include "sim/sim_loop.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

constexpr Time kSilence = 6s;  // until a call to one that does not answer is given up

// Who answers at which port.
class Doors : public RosterPost {
 public:
  explicit Doors(SimLoop& loop) : loop_(loop) {}

  void open(std::uint32_t port, Council* council) { councils_[port] = council; }
  void close(std::uint32_t port) { councils_.erase(port); }  // nobody listens there any more
  void silence(std::uint32_t port) { councils_[port] = nullptr; }

  Task<Answer> ask(Address door, Message question, Time) override {
    co_await sleep_until(loop_, loop_.now() + 1ms);
    Answer answer;
    const auto found = councils_.find(door.port);
    if (found == councils_.end()) {
      answer.is_dead = true;
    } else if (found->second == nullptr) {
      co_await sleep_until(loop_, loop_.now() + kSilence);
    } else {
      answer.message = found->second->answer(question, {});
    }
    co_return answer;
  }

 private:
  SimLoop& loop_;
  std::map<std::uint32_t, Council*> councils_;
};

Member member(std::uint64_t id, std::uint32_t port) {
  Member member;
  member.id = id;
  member.door.port = port;
  return member;
}

// Who knows only the doors.
Roster doors(std::vector<std::uint32_t> ports) {
  Roster roster;
  for (const std::uint32_t port : ports) roster.members.push_back(member(0, port));
  return roster;
}

class Councils : public ::testing::Test {
 protected:
  Councils() {
    rules_.patience = 2s;
    rules_.wait = 100s;
  }

  // A process at the port of its id, or at another.
  Council& process(const Roster& roster, std::uint64_t id, std::uint32_t port = 0) {
    if (port == 0) port = static_cast<std::uint32_t>(id);
    auto& council = all_.emplace_back(
        std::make_unique<Council>(loop_, doors_, member(id, port), roster, rules_, id));
    doors_.open(port, council.get());
    if (roster.generation > 0) council->has_met();
    return *council;
  }
  static Roster first(std::vector<std::uint64_t> ids) {
    Roster roster;
    roster.generation = 1;
    for (const std::uint64_t id : ids) {
      roster.members.push_back(member(id, static_cast<std::uint32_t>(id)));
    }
    return roster;
  }
  bool next(Council& council) { return loop_.run(council.next()); }
  static Task<> go_on(Council& council, bool& is_in) {
    Task<bool> next = council.next();
    is_in = co_await next;
    council.has_met();
  }
  void pass(Time time) { loop_.run(sleep_until(loop_, loop_.now() + time)); }

  SimLoop loop_;
  Doors doors_{loop_};
  Council::Rules rules_;
  std::vector<std::unique_ptr<Council>> all_;
};

TEST_F(Councils, SilentMembersKeepNobodyFromJoining) {
  process(first({9}), 9);
  for (const std::uint32_t port : {1, 2, 3, 4}) doors_.silence(port);
  Council& guest = process(doors({1, 2, 3, 4, 9}), 10);
  EXPECT_TRUE(next(guest));
  EXPECT_LT(loop_.now(), 1s);
}

TEST_F(Councils, OneWhoKnowsNothingKeepsNobodyFromJoining) {
  process(doors({}), 1);
  process(first({9}), 9);
  Council& guest = process(doors({1, 9}), 10);
  EXPECT_TRUE(next(guest));
  EXPECT_EQ(guest.roster().generation, 2u);
}

TEST_F(Councils, SilentLowerMembersAreAskedAtTheSameTime) {
  const Roster roster = first({1, 2, 3, 4, 5, 6, 7});
  for (const std::uint32_t port : {1, 2, 3}) doors_.silence(port);
  Council& fourth = process(roster, 4);
  for (const std::uint64_t id : {5, 6, 7}) process(roster, id);
  EXPECT_TRUE(next(fourth));
  EXPECT_LT(loop_.now(),
            3 * kSilence + 3s);  // to find that no lower one leads, and twice to be agreed with
}

// The machine of the lower of two was started again, with the same address and port.
TEST_F(Councils, OneWhoseDoorAnotherHasTakenIsDead) {
  const Roster roster = first({1, 2});
  Council& second = process(roster, 2);
  Council& newcomer = process(doors({1, 2}), 77, 1);
  bool is_in = false, newcomer_is_in = false;
  const Running one(go_on(second, is_in)), other(go_on(newcomer, newcomer_is_in));
  pass(10s);
  EXPECT_TRUE(is_in);
  EXPECT_TRUE(newcomer_is_in);
  EXPECT_EQ(second.roster(), newcomer.roster());
  EXPECT_EQ(second.roster().members.size(), 2u);
}

TEST_F(Councils, NobodyIsLeftIfOnlyTheGuestItselfAnswers) {
  Council& newcomer = process(doors({1}), 77, 1);
  EXPECT_THROW(next(newcomer), Error);
}

// Two were left out because they did not answer, and then all others die.
TEST_F(Councils, ThoseWhoWereLeftOutGoOnTogetherWhenAllOthersAreDead) {
  const Roster roster = first({1, 2, 3, 4, 5});
  Council& lowest = process(roster, 1);
  for (const std::uint64_t id : {2, 3}) process(roster, id);
  Council& fourth = process(roster, 4);
  Council& fifth = process(roster, 5);
  doors_.silence(4);
  doors_.silence(5);
  EXPECT_TRUE(next(lowest));
  EXPECT_EQ(lowest.roster().members.size(), 3u);
  Message decided;
  decided.kind = Message::Kind::decided;
  decided.roster = lowest.roster();
  fourth.answer(decided, {});
  fifth.answer(decided, {});
  doors_.open(4, &fourth);
  doors_.open(5, &fifth);
  for (const std::uint32_t port : {1, 2, 3}) doors_.close(port);

  bool fourth_is_in = false, fifth_is_in = false;
  const Running one(go_on(fourth, fourth_is_in)), other(go_on(fifth, fifth_is_in));
  pass(20s);
  EXPECT_TRUE(fourth_is_in && fifth_is_in);
  EXPECT_EQ(fourth.roster(), fifth.roster());
  EXPECT_EQ(fourth.roster().generation, 3u);
  EXPECT_EQ(fourth.roster().members.size(), 2u);
}

TEST_F(Councils, WhoWaitsAtTheDoorIsToldOfTheEnd) {
  rules_.most_workers = 1;
  Council& only = process(first({1}), 1);
  Council& guest = process(doors({1}), 2);
  bool is_in = true;
  const Running waiting(go_on(guest, is_in));
  pass(5s);
  loop_.run(only.tell_end());
  doors_.close(1);
  pass(1s);
  ASSERT_TRUE(waiting.done());
  EXPECT_FALSE(is_in);
}

// As if what is handed over never arrived.
// Takes steps, and enters every generation that is due, until the others have gone on without it.
Task<> work(Loop& loop, Council& council, bool& has_left) {
  while (!has_left) {
    for (std::uint64_t step = 1; !council.is_due(); ++step) {
      council.note_step(step);
      co_await sleep_until(loop, loop.now() + 5ms);
    }
    Task<bool> next = council.next();
    const bool is_in = co_await next;
    has_left = !is_in;
    council.has_met();
  }
}

// The second may say so when the generation without the first is agreed on already, with itself in it.
TEST_F(Councils, TwoWhoLeaveAtAnyTimeBothLeave) {
  for (std::uint64_t i = 0; i < 40; ++i) {
    const std::uint64_t id = 10 * i;
    const Roster roster = first({id + 1, id + 2, id + 3, id + 4});
    std::array<bool, 4> has_left{};
    std::list<Running> working;
    std::array<Council*, 4> members{};
    for (std::uint64_t place = 0; place < 4; ++place) {
      members[place] = &process(roster, id + 1 + place);
      working.emplace_back(work(loop_, *members[place], has_left[place]));
    }
    pass(7ms);
    members[2]->leave();
    pass(i * 500us);
    members[3]->leave();
    pass(30s);
    EXPECT_EQ(has_left, (std::array{false, false, true, true})) << i;
  }
}

TEST_F(Councils, GenerationsThatComeToNoStepEndSomeDay) {
  Council& only = process(first({1}), 1);
  only.note_step(1);
  const auto go_on_in_vain = [&] {
    for (int generation = 0; generation < 1000; ++generation) {
      next(only);
      only.has_met();
      pass(20s);
    }
  };
  EXPECT_THROW(go_on_in_vain(), DeadlineExceeded);
  EXPECT_LT(loop_.now(), 3 * rules_.wait);
}

TEST_F(Councils, GenerationsThatNeverMeetEndSomeDay) {
  Council& only = process(first({1}), 1);
  const auto go_on_in_vain = [&] {
    for (int generation = 0; generation < 1000; ++generation) {
      next(only);
      pass(15s);
    }
  };
  EXPECT_THROW(go_on_in_vain(), DeadlineExceeded);
  EXPECT_LT(loop_.now(), rules_.wait + 20s);
}

// A step sets the clock back.
TEST_F(Councils, GenerationsThatGetOnNeverEnd) {
  Council& only = process(first({1}), 1);
  for (int generation = 0; generation < 100; ++generation) {
    ASSERT_TRUE(next(only));
    only.has_met();
    pass(20s);
    only.note_step(1);
  }
}

TEST_F(Councils, OneWhoDiesOnItsWayIsFound) {
  const Roster roster = first({1, 2, 3});
  Council& lowest = process(roster, 1);
  for (const std::uint64_t id : {2, 3}) process(roster, id);
  loop_.at(5s, [this] { doors_.close(3); });
  EXPECT_EQ(loop_.run(lowest.first_dead({1, 2})), 2);
  EXPECT_LT(loop_.now(), 6s);
}

}  // namespace
}  // namespace starling
