#include "roster/council.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/log.h"
#include "runtime/all.h"
#include "runtime/race.h"

namespace starling {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Time kTellPatience = seconds(2);
constexpr Time kLeaderPatience = seconds(3);  // until who deferred to a lower one proposes itself
constexpr Time kAskNextLower = milliseconds(250);
constexpr Time kTimeToLeave = seconds(10);
constexpr Time kAskAgain = milliseconds(250);
constexpr Time kLookAgain = milliseconds(500);
constexpr int kFailuresToBear = 10;        // in a row, each for as long as it may take
constexpr Time kForgetGuest = seconds(3);  // it asks again much sooner
constexpr Time kShunFor = seconds(5);      // twice as long each time
constexpr std::uint64_t kStepsAhead = 4;   // by then all have heard: a round of questions a step
constexpr std::size_t kMostGuests = 256;

}  // namespace

Council::Council(Loop& loop, RosterPost& post, Member self, Roster roster, Rules rules,
                 std::uint64_t seed)
    : loop_(loop),
      post_(post),
      self_(self),
      roster_(std::move(roster)),
      generation_(roster_.generation),
      worked_in_(generation_ > 0 ? roster_ : Roster()),
      rules_(rules),
      random_{seed},
      entered_(loop.now()),
      news_(loop),
      work_(loop) {
  lead_.emplace(lead());
}

Message Council::message(Message::Kind kind) const {
  Message message;
  message.kind = kind;
  message.sender = self_;
  message.roster = roster_;
  return message;
}

// What was decided later than what we know.
void Council::learn(const Roster& roster) {
  if (roster.generation <= roster_.generation || roster.members.empty()) return;
  roster_ = roster;
  promised_ = agreed_in_ = {};
  agreed_.reset();
  outlives_ = false;
  for (const Member& member : roster_.members) guests_.erase(member.id);
  news_.ring();
  work_.ring();
}

Message Council::answer(const Message& question, const Address& from) {
  const bool knows_less = question.roster.generation <= roster_.generation;
  switch (question.kind) {
    case Message::Kind::decided:
      learn(question.roster);
      return message(Message::Kind::noted);
    case Message::Kind::leave:
      leave();
      return message(Message::Kind::noted);
    case Message::Kind::ended:
      learn(question.roster);
      hear_of_the_end(question.roster);
      return message(Message::Kind::noted);
    case Message::Kind::join: {
      if (question.terms != rules_.terms) return message(Message::Kind::refused);
      Guest guest{question.sender, loop_.now()};
      guest.member.door.ip = from.ip;  // which it may not know itself
      if (votes()) hear_guest(guest);
      Message noted = message(Message::Kind::noted);
      noted.roster = voters();  // whom to ask
      return noted;
    }
    case Message::Kind::assemble:
    case Message::Kind::prepare:
    case Message::Kind::accept:
      if (knows_less) return message(Message::Kind::decided);
      if (!votes() || question.roster.generation != next_generation()) {
        return message(Message::Kind::noted);  // we know less, or do not vote
      }
      return answer_member(question);
    default:
      return message(Message::Kind::noted);
  }
}

void Council::hear_guest(const Guest& guest) {
  const std::uint64_t id = guest.member.id;
  if (voters().has(id)) return;
  if (waiting_.contains(id) || waiting_.size() < kMostGuests) waiting_[id] = guest;
  if (shuns(id) || !waiting_.contains(id)) return;
  guests_[id] = guest;
  work_.ring();
}

// One who goes on without those who have ended need not care.
void Council::hear_of_the_end(const Roster& roster) {
  if (is_member() || roster.generation < roster_.generation) return;
  is_over_ = true;
  news_.ring();
}

// As a voter.
Message Council::answer_member(const Message& question) {
  if (question.kind == Message::Kind::assemble) {
    want_next();
    return message(Message::Kind::noted);
  }
  highest_round_ = std::max(highest_round_, question.ballot.round);
  if (question.ballot < promised_) {
    Message refused = message(Message::Kind::refused);
    refused.ballot = promised_;
    return refused;
  }
  promised_ = question.ballot;
  if (question.kind == Message::Kind::accept) {
    agreed_in_ = question.ballot;
    agreed_ = question.roster;
    return message(Message::Kind::accepted);
  }
  Message promise = message(Message::Kind::promised);
  promise.ballot = promised_;
  promise.leaves = leaves_ ? 1 : 0;
  promise.stopped = stopped_ ? 1 : 0;
  promise.step = step_;
  promise.missed = missed_;
  promise.agreed_in = agreed_in_;
  if (agreed_) promise.roster = *agreed_;
  forget_old_guests();
  for (const auto& [id, guest] : guests_) promise.guests.push_back(guest.member);
  return promise;
}

void Council::leave() {
  leaves_ = true;
  news_.ring();
  if (rules_.at_once) want_next();
}

bool Council::wants_change() {
  forget_old_guests();
  return leaves_ || roster_.generation > generation_ || lets_somebody_in();
}

void Council::want_next() {
  wanted_ = next_generation();
  work_.ring();
}

void Council::forget_old_guests() {
  for (auto* guests : {&guests_, &waiting_}) {
    std::erase_if(*guests,
                  [&](const auto& each) { return each.second.heard + kForgetGuest < loop_.now(); });
  }
}

bool Council::shuns(std::uint64_t id) const {
  const auto found = shunned_.find(id);
  return found != shunned_.end() && loop_.now() < found->second.until;
}

void Council::did_not_meet(std::optional<std::uint64_t> missing,
                           const std::vector<std::uint64_t>& guests) {
  missed_ = missing.value_or(0);
  for (std::uint64_t id : guests) {
    Shunned& shunned = shunned_[id];
    shunned.times = std::min(shunned.times + 1, 6);
    shunned.until = loop_.now() + kShunFor * (1 << shunned.times);
    guests_.erase(id);
  }
}

// Of those at the door.
bool Council::lets_somebody_in() const {
  const bool has_room = roster_.workers() < rules_.most_workers;
  return std::ranges::any_of(guests_, [&](const auto& guest) {
    return has_room || guest.second.member.role == Member::Role::server;
  });
}

bool Council::must_propose() {
  forget_old_guests();
  if (!votes()) return false;
  if (wanted_ == next_generation()) return true;
  const bool is_at_work = rules_.at_once && has_met_ && roster_.generation == generation_;
  return is_at_work && (leaves_ || lets_somebody_in());
}

// Proposes whenever it is for us to do that.
Task<> Council::lead() {
  while (true) {
    while (!must_propose()) co_await work_.rung();
    const std::uint64_t before = roster_.generation;
    Task<bool> proposal = propose();
    const bool decided = co_await proposal;
    if (decided && roster_.generation > before) continue;
    // Two who propose at the same time must not do so again and again.
    const auto pause = static_cast<std::int64_t>(50 + random_.below(250));
    co_await sleep_until(loop_, loop_.now() + milliseconds(pause));
  }
}

Task<bool> Council::propose() {
  const Roster voters = this->voters();
  const std::uint64_t generation = next_generation();
  const Ballot ballot{++highest_round_, self_.id};
  const auto is_over = [&] { return roster_.generation >= generation; };

  Message prepare = message(Message::Kind::prepare);
  prepare.ballot = ballot;
  prepare.roster = {generation, 0, {}};
  Tally promises;
  co_await poll(prepare, voters, promises, Message::Kind::promised);
  if (is_over()) co_return true;
  if (!may_decide(voters, promises.agree, promises.dead) || !is_worth_it(promises)) {
    co_return false;
  }

  Message accept = message(Message::Kind::accept);
  accept.ballot = ballot;
  accept.roster = compose(voters, promises);
  accept.roster.generation = generation;
  if (accept.roster.workers() < rules_.least_workers ||
      accept.roster.servers() < rules_.least_servers) {
    co_return false;
  }
  Tally votes;
  co_await poll(accept, voters, votes, Message::Kind::accepted);
  if (is_over()) co_return true;
  for (std::size_t place = 0; place < votes.dead.size(); ++place) {
    if (promises.dead[place]) votes.dead[place] = true;
  }
  if (!may_decide(voters, votes.agree, votes.dead)) co_return false;
  learn(accept.roster);
  telling_.remove_if([](const Running& each) { return each.done(); });
  telling_.emplace_back(tell_all(accept.roster, voters));
  co_return true;
}

// A member that is only busy is not to be left out where all could go on.
bool Council::is_worth_it(const Tally& tally) const {
  bool all_are_known = true;
  for (std::size_t place = 0; place < tally.answers.size(); ++place) {
    if (tally.agree[place] && tally.answers[place].message->stopped != 0) return true;
    all_are_known = all_are_known && (tally.agree[place] || tally.dead[place]);
  }
  return all_are_known;
}

// Asks all voters at the same time, ourselves among them.
Task<> Council::poll(const Message& question, const Roster& voters, Tally& tally,
                     Message::Kind agreement) {
  const std::size_t n = voters.members.size();
  tally.answers.resize(n);
  std::vector<Task<>> asking;
  for (std::size_t place = 0; place < n; ++place) {
    const Member& voter = voters.members[place];
    if (voter.id == self_.id) {
      tally.answers[place].message = answer(question, self_.door);
    } else {
      asking.push_back(ask_one(voter, question, rules_.patience, tally.answers[place]));
    }
  }
  co_await all(std::move(asking));
  for (const RosterPost::Answer& answer : tally.answers) {
    const std::optional<Message>& said = answer.message;
    tally.agree.push_back(!answer.is_dead && said && said->kind == agreement);
    tally.dead.push_back(answer.is_dead);
    if (said && said->kind == Message::Kind::refused) {
      highest_round_ = std::max(highest_round_, said->ballot.round);
    }
    if (said && said->kind == Message::Kind::decided) learn(said->roster);
  }
}

// Where another process answers at its door, the member is dead: it has the door for as long as it runs.
// Of those a guest was told of only the doors are known.
Task<> Council::ask_one(Member member, Message question, Time patience,
                        RosterPost::Answer& answer) {
  Task<RosterPost::Answer> asking = post_.ask(member.door, std::move(question), patience);
  answer = co_await asking;
  if (!answer.message) co_return;
  const std::uint64_t who = answer.message->sender.id;
  if (member.id == 0 ? who == self_.id : who != member.id) answer.is_dead = true;
}

// What must be proposed if somebody may have decided it already, or else what we find best.
Roster Council::compose(const Roster& voters, const Tally& tally) {
  const Message* latest = nullptr;
  for (std::size_t place = 0; place < tally.answers.size(); ++place) {
    if (!tally.agree[place]) continue;
    const Message& promise = *tally.answers[place].message;
    if (promise.agreed_in == Ballot{}) continue;
    if (latest == nullptr || latest->agreed_in < promise.agreed_in) latest = &promise;
  }
  if (latest != nullptr) return latest->roster;

  Roster next;
  std::map<std::uint64_t, Member> guests;
  for (std::size_t place = 0; place < tally.answers.size(); ++place) {
    if (!tally.agree[place]) continue;
    const Message& promise = *tally.answers[place].message;
    for (const Member& guest : promise.guests) guests.emplace(guest.id, guest);
    if (promise.leaves != 0) continue;
    Member member = promise.sender;
    member.id = voters.members[place].id;
    member.door = voters.members[place].door;
    member.role = voters.members[place].role;
    next.members.push_back(member);
  }
  leave_out_who_cannot_meet(next, voters, tally);
  for (const auto& [id, guest] : guests) {
    if (next.has(id) || shuns(id)) continue;
    const bool works = guest.role == Member::Role::worker;
    if (!works || next.workers() < rules_.most_workers) next.members.push_back(guest);
  }
  std::ranges::stable_sort(next.members, {}, &Member::role);
  next.begins_after = last_step(voters, tally);
  return next;
}

// Of two members of whom one has missed the other, the lower one stays.
void Council::leave_out_who_cannot_meet(Roster& next, const Roster& voters,
                                        const Tally& tally) const {
  for (std::size_t place = 0; place < tally.answers.size(); ++place) {
    if (!tally.agree[place]) continue;
    const std::optional<int> misses = next.place_of(voters.members[place].id);
    const std::optional<int> missed = next.place_of(tally.answers[place].message->missed);
    if (misses && missed) next.members.erase(next.members.begin() + std::max(*misses, *missed));
  }
}

// Where all members are there and at work, none needs to repeat a step. Those who do not go step by step
// have all done the least of theirs.
std::uint64_t Council::last_step(const Roster& voters, const Tally& tally) const {
  std::uint64_t furthest = 0, least = std::numeric_limits<std::uint64_t>::max();
  for (std::size_t place = 0; place < tally.answers.size(); ++place) {
    if (!tally.agree[place] || tally.answers[place].message->stopped != 0) return 0;
    const std::uint64_t step = tally.answers[place].message->step;
    furthest = std::max(furthest, step);
    if (voters.members[place].role == Member::Role::worker) least = std::min(least, step);
  }
  return rules_.in_step ? furthest + kStepsAhead : least;
}

// Those who have a part in it, and those who have none any more.
Task<> Council::tell_all(Roster roster, Roster voters) {
  Message decided = message(Message::Kind::decided);
  decided.roster = roster;
  std::map<std::uint64_t, Member> told;
  for (const Member& member : voters.members) told[member.id] = member;
  for (const Member& member : roster.members) told[member.id] = member;
  told.erase(self_.id);
  std::list<RosterPost::Answer> answers;
  std::vector<Task<>> telling;
  for (const auto& [id, member] : told) {
    telling.push_back(ask_one(member, decided, kTellPatience, answers.emplace_back()));
  }
  co_await all(std::move(telling));
}

Task<> Council::until_news() { co_await news_.rung(); }

Task<> Council::until_news_or(Time deadline) {
  Task<int> contest = race(until_news(), sleep_until(loop_, deadline));
  co_await contest;
}

// How long we have been without a generation that got on. One that has come to no step is as good as none,
// if steps are told of at all; what is worth waiting for in it has a deadline of its own.
Time Council::waited() const {
  if (has_met_ && (step_ > 0 || !counts_steps_)) return Time(0);
  const Time in_vain = loop_.now() - entered_;
  return waited_ + (has_met_ ? std::min(in_vain, rules_.wait / kFailuresToBear) : in_vain);
}

Task<bool> Council::next() {
  waited_ = waited();
  const std::uint64_t before = generation_;
  const Time begun = loop_.now();
  const Time gives_up = begun + rules_.wait - waited_;
  stopped_ = true;
  std::optional<Time> defers_until;
  while (true) {
    if (roster_.generation > before && is_member()) break;
    // Who wants to go is not kept by those who cannot agree on it.
    if (leaves_ && (roster_.generation > before || loop_.now() > begun + kTimeToLeave)) {
      for (Running& telling : telling_)
        co_await telling;  // the others must not hear it from nobody
      co_return false;
    }
    if (loop_.now() > gives_up) {
      throw DeadlineExceeded(
          fmt::format("no generation after {} came together and got on within {} s", before,
                      std::chrono::duration_cast<seconds>(rules_.wait).count()),
          "too few of its members can be reached; start more, or see to the network");
    }
    if (is_over_) co_return false;
    if (!votes()) {
      const Time looks_up = leaves_ ? begun + kTimeToLeave : gives_up;
      Task<int> contest = race(ask_to_join(), until_news_or(looks_up + kAskAgain));
      co_await contest;
      continue;
    }
    if (!defers_until) {
      Task<bool> asking = lower_one_leads();
      const bool lower = co_await asking;
      defers_until = loop_.now() + (lower ? kLeaderPatience : Time(0));
    } else if (loop_.now() >= *defers_until) {
      want_next();
    }
    if (roster_.generation == before || !is_member()) {
      co_await until_news_or(loop_.now() + kAskAgain);
    }
  }
  generation_ = roster_.generation;
  worked_in_ = roster_;
  stopped_ = has_met_ = false;
  step_ = 0;
  missed_ = 0;
  waited_ += loop_.now() - begun;
  entered_ = loop_.now();
  co_return true;
}

// Whether one of those below us has answered, who will propose. The lowest is asked first, so that not
// all of them do; one that is silent does not keep us from the next.
Task<bool> Council::lower_one_leads() {
  const Roster voters = this->voters();
  const int place = voters.place_of(self_.id).value_or(0);
  Message question = message(Message::Kind::assemble);
  question.roster = {next_generation(), 0, {}};
  Signal news;
  std::list<RosterPost::Answer> answers;
  std::list<Running> asking;
  const auto one_leads = [&] {
    return std::ranges::any_of(answers,
                               [](const auto& each) { return each.message && !each.is_dead; });
  };
  for (int lower = 0; lower < place && !one_leads(); ++lower) {
    const Member& member = voters.members[static_cast<std::size_t>(lower)];
    const Running& last =
        asking.emplace_back(ask_one(member, question, kTellPatience, answers.emplace_back()), news);
    const Running patience(sleep_until(loop_, loop_.now() + kAskNextLower), news);
    while (!one_leads() && !last.done() && !patience.done()) co_await news;
  }
  while (!one_leads() && !std::ranges::all_of(asking, &Running::done)) co_await news;
  for (const RosterPost::Answer& each : answers) {
    if (each.message && each.message->kind == Message::Kind::decided) learn(each.message->roster);
  }
  co_return one_leads();
}

// Asks all of those we know of, each for itself, so that nobody's silence keeps us from the others. What
// one says may be more than we knew.
Task<> Council::ask_to_join() {
  const Roster known = roster_;
  std::list<bool> dead;
  std::vector<Task<>> asking;
  for (const Member& member : known.members) {
    asking.push_back(ask_again_and_again(member, dead.emplace_back(false), dead));
  }
  co_await all(std::move(asking));
}

Task<> Council::ask_again_and_again(Member member, bool& is_dead, const std::list<bool>& dead) {
  while (true) {
    Message question = message(Message::Kind::join);
    question.terms = rules_.terms;
    RosterPost::Answer answer;
    co_await ask_one(member, std::move(question), kTellPatience, answer);
    is_dead = answer.is_dead;
    if (std::ranges::all_of(dead, std::identity())) outlive_all();
    if (answer.message && answer.message->kind == Message::Kind::refused) {
      throw Error("the job it would have joined has other settings, or runs another Starling",
                  "start it as the others were; `starling join` asks them how");
    }
    if (answer.message) learn(answer.message->roster);
    co_await sleep_until(loop_, loop_.now() + kAskAgain);
  }
}

// Those who have gone on without us are all dead. Who is left of the generation that we were in decides in
// their place; each of them comes to know it as we have.
void Council::outlive_all() {
  if (worked_in_.members.empty()) {
    throw Error("nobody is left of those it would have joined", "the job may have ended");
  }
  outlives_ = true;
  news_.ring();
}

Task<int> Council::first_dead(std::vector<int> places) {
  const Roster members = roster_;
  Signal news;
  std::list<Running> looking;
  for (const int place : places) {
    looking.emplace_back(until_dead(members.members[static_cast<std::size_t>(place)]), news);
  }
  while (true) {
    auto place = places.begin();
    for (const Running& each : looking) {
      if (each.done()) co_return *place;
      ++place;
    }
    co_await news;
  }
}

Task<> Council::until_dead(Member member) {
  RosterPost::Answer answer;
  while (!answer.is_dead) {
    co_await sleep_until(loop_, loop_.now() + kLookAgain);
    answer = {};
    co_await ask_one(member, message(Message::Kind::knock), kTellPatience, answer);
  }
}

Task<> Council::tell_end() {
  forget_old_guests();
  std::list<RosterPost::Answer> answers;
  std::vector<Task<>> telling;
  for (const auto& [id, waiting] : waiting_) {
    if (roster_.has(id)) continue;
    telling.push_back(ask_one(waiting.member, message(Message::Kind::ended), kTellPatience,
                              answers.emplace_back()));
  }
  co_await all(std::move(telling));
}

}  // namespace starling
