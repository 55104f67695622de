#include "job/roster_door.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "job/handshake.h"
#include "runtime/race.h"

namespace starling {

namespace {

constexpr Time kCallPatience = std::chrono::seconds(4);  // the kernel calls at 0, 1 and 3 s
constexpr Time kQuestionPatience = std::chrono::seconds(5);
constexpr std::size_t kMostCalls = 256;  // at a time
// A crowd at the door may not cost much: of strangers 1,000 a second are examined, and the others wait in the
// kernel.
constexpr std::uint64_t kCallersAtATime = 16;
constexpr Time kBetweenCallers = std::chrono::milliseconds(16);
constexpr std::size_t kMostPlaces = 4096;

// In the handshake everyone who asks is rank 1 of 2, and who is asked is rank 0.
constexpr int kAsked = 0, kAsking = 1;

Job for_roster(Job job, int rank) {
  job.secret += "\nroster";
  job.terms.clear();  // who wants to join may have yet to ask for them
  job.size = 2;
  job.rank = rank;
  return job;
}

Task<Message> read_message(Loop& loop, Link& link) {
  std::vector<std::byte> bytes(kMessageHeadBytes);
  co_await read_exactly(loop, link, bytes);
  bytes.resize(kMessageHeadBytes + bytes_behind(bytes));
  co_await read_exactly(loop, link, std::span(bytes).subspan(kMessageHeadBytes));
  co_return decode(bytes);
}

Task<> write_message(Loop& loop, Link& link, const Message& message) {
  const std::vector<std::byte> bytes = encode(message);
  co_await write_all(loop, link, bytes);
}

}  // namespace

RosterDoor::RosterDoor(Host& host, Job job, std::unique_ptr<Listener> listener)
    : host_(host),
      job_(std::move(job)),
      keys_(job_.encryption.keys(job_.secret)),
      listener_(std::move(listener)) {}

void RosterDoor::open(Answering answering) {
  answering_ = std::move(answering);
  welcoming_.emplace(welcome());
}

void RosterDoor::close() {
  welcoming_.reset();
  calls_.clear();
}

Task<> RosterDoor::welcome() {
  while (true) {
    Task<Listener::Caller> accepting = listener_->accept();
    Listener::Caller caller = co_await accepting;
    make_room();
    calls_.emplace_back(*this, std::move(caller));
    if (++callers_ % kCallersAtATime != 0) continue;
    co_await sleep_until(host_.loop(), host_.loop().now() + kBetweenCallers);
  }
}

// Who has shaken hands is of the job, and who calls from where one of it has is likely to be. Of the
// others, who has been silent for longest goes.
void RosterDoor::make_room() {
  calls_.remove_if([](const Call& each) { return each.running.done(); });
  if (calls_.size() < kMostCalls) return;
  auto goes = std::ranges::find_if(calls_, [this](const Call& each) {
    return !each.is_known && !known_places_.contains(each.caller.from.ip);
  });
  if (goes == calls_.end()) {
    goes = std::ranges::find_if(calls_, [](const Call& each) { return !each.is_known; });
  }
  calls_.erase(goes == calls_.end() ? calls_.begin() : goes);
}

Task<> RosterDoor::hear(Call& call) {
  try {
    co_await within(host_.loop(), host_.loop().now() + kQuestionPatience, "its question",
                    reply(call));
  } catch (const std::exception& error) {
    spdlog::debug("answered nothing to {} about the roster: {}", to_string(call.caller.from),
                  error.what());
  }
  call.caller.link->close();
}

Task<> RosterDoor::reply(Call& call) {
  std::unique_ptr<Link>& link = call.caller.link;
  if (job_.encryption.covers(call.caller.from)) {
    co_await encrypt(host_, link, *keys_, TlsLink::Side::listener);
  }
  Task<Hello> first = hear_hello(host_, *link);
  const Hello hello = co_await first;
  const Job job = for_roster(job_, kAsked);
  co_await examine(host_, *link, job, hello, to_string(call.caller.from));
  call.is_known = true;
  if (known_places_.size() < kMostPlaces) known_places_.insert(call.caller.from.ip);
  Task<Message> reading = read_message(host_.loop(), *link);
  const Message question = co_await reading;
  const Message answer = answering_(question, call.caller.from);
  co_await write_message(host_.loop(), *link, answer);
}

Task<RosterPost::Answer> RosterDoor::ask(Address door, Message question, Time patience) {
  Answer answer;
  std::unique_ptr<Link> link;
  try {
    co_await within(host_.loop(), host_.loop().now() + kCallPatience, "a call",
                    call_up(door, link, answer));
    if (link) {
      co_await within(host_.loop(), host_.loop().now() + patience, "an answer",
                      talk(door, link, question, answer));
    }
  } catch (const std::exception& error) {
    answer.why = error.what();
    spdlog::debug("no answer about the roster from {}: {}", to_string(door), error.what());
  }
  if (link) link->close();
  co_return answer;
}

Task<> RosterDoor::call_up(Address door, std::unique_ptr<Link>& link, Answer& answer) {
  Task<Host::Answer> calling = host_.call(door);
  Host::Answer called = co_await calling;
  link = std::move(called.link);
  answer.is_dead = called.refused;
  answer.why = called.why;
}

Task<> RosterDoor::talk(Address door, std::unique_ptr<Link>& link, const Message& question,
                        Answer& answer) {
  if (job_.encryption.covers(door)) {
    co_await encrypt(host_, link, *keys_, TlsLink::Side::caller);
  }
  const Job job = for_roster(job_, kAsking);
  co_await introduce(host_, *link, job, kAsked, 0);
  co_await write_message(host_.loop(), *link, question);
  Task<Message> reading = read_message(host_.loop(), *link);
  answer.message = co_await reading;
}

}  // namespace starling
