#include "job/join.h"

#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/names.h"
#include "job/handshake.h"
#include "runtime/all.h"
#include "runtime/race.h"

namespace starling {

namespace {

constexpr Time kHandshakePatience = std::chrono::seconds(5);
constexpr Time kLookEvery = std::chrono::milliseconds(250);
constexpr Time kCallAgainAfter = std::chrono::milliseconds(50);
constexpr Time kSilentFor = std::chrono::seconds(8);  // the kernel calls at 0, 1, 3 and 7 s
constexpr Time kToBeTold = std::chrono::seconds(1);
constexpr Time kFirstWord = std::chrono::seconds(5);  // on whom we wait for
constexpr Time kNextWord = std::chrono::seconds(10);
// Once all are here, a crowd may cost half a percent of a processor: who knocks is content with the
// kernel's answer, and need not wait to be hung up on.
constexpr std::uint64_t kHangUpsAtATime = 16;
constexpr Time kBetweenHangUps = std::chrono::milliseconds(16);
constexpr std::size_t kMostStrangers = 64;  // that are examined at a time, besides the members

using Peers = std::vector<std::optional<Mesh::Peer>>;

// What stands in front of the roster, which is the address of each rank.
struct RosterHead {
  enum class Why : std::uint32_t { gone, disagrees, here_already };
  static constexpr std::uint32_t kNobody = ~0u;
  std::uint32_t missing = kNobody;  // if somebody is, there is no roster
  Why why = Why::gone;
};

// "rank 3", "ranks 1 and 3", "ranks 1, 4 to 63".
std::string in_words(const std::vector<int>& ranks) {
  std::vector<std::string> runs;
  for (std::size_t begin = 0, end = 0; begin < ranks.size(); begin = end) {
    for (end = begin + 1; end < ranks.size() && ranks[end] == ranks[end - 1] + 1;) ++end;
    if (end - begin > 2) {
      runs.push_back(fmt::format("{} to {}", ranks[begin], ranks[end - 1]));
    } else {
      for (std::size_t i = begin; i < end; ++i) runs.push_back(std::to_string(ranks[i]));
    }
  }
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", listed(runs, " and "));
}

}  // namespace

// The listener: examines whoever calls, several at a time, and keeps those who belong here.
class Door {
 public:
  Door(Host& host, Job job, const std::optional<TlsKeys>& keys, std::unique_ptr<Listener> listener)
      : host_(host),
        job_(std::move(job)),
        keys_(keys),
        listener_(std::move(listener)),
        guests_(static_cast<std::size_t>(job_.size)),
        refusals_(guests_.size()),
        news_(host.loop()),
        welcoming_(welcome_guests()) {}

  struct Guest {
    std::unique_ptr<Link> link;
    Address from;
    Hello hello;
  };

  std::uint32_t port() const { return listener_->port(); }

  // nullptr if that rank has not come.
  Guest* guest(int rank) {
    std::optional<Guest>& place = guests_[static_cast<std::size_t>(rank)];
    return place ? &*place : nullptr;
  }
  // Why one that called itself so was sent away, or nothing.
  const std::string& refusal(int rank) const { return refusals_[static_cast<std::size_t>(rank)]; }
  // Throws what somebody and we have not alike.
  void check_agreement() const {
    if (disagreement_) throw *disagreement_;
  }
  // Rings when another guest has come, and whenever else there is something to look at.
  Bell& news() { return news_; }

  // All are here: from now on every caller is hung up on.
  void shut() {
    is_shut_ = true;
    examinations_.clear();
  }

 private:
  struct Examination {
    Examination(Door& door, Listener::Caller called)
        : caller(std::move(called)), running(door.examine_guest(*this)) {}
    Listener::Caller caller;
    std::optional<Hello> hello;
    Running running;
  };

  Task<> welcome_guests() {
    while (true) {
      Task<Listener::Caller> call = listener_->accept();
      Listener::Caller caller = co_await call;
      if (is_shut_) {
        caller.link.reset();
        if (++hung_up_on_ % kHangUpsAtATime != 0) continue;
        co_await sleep_until(host_.loop(), host_.loop().now() + kBetweenHangUps);
        continue;
      }
      make_room();
      examinations_.emplace_back(*this, std::move(caller));
    }
  }

  // A member says hello at once. So when there are more callers than members and some strangers,
  // who has been silent for longest goes.
  void make_room() {
    examinations_.remove_if([](const Examination& each) { return each.running.done(); });
    if (examinations_.size() < static_cast<std::size_t>(job_.size) + kMostStrangers) return;
    const auto silent = std::ranges::find_if(
        examinations_, [](const Examination& each) { return !each.hello.has_value(); });
    examinations_.erase(silent == examinations_.end() ? examinations_.begin() : silent);
  }

  Task<> examine_guest(Examination& examination) {
    try {
      co_await within(host_.loop(), host_.loop().now() + kHandshakePatience, "its handshake",
                      shake_hands(examination));
      seat(examination);
      news_.ring();
    } catch (const Disagreement& error) {
      disagreement_ = error;
      examination.caller.link->close();
      news_.ring();
    } catch (const HungUp& error) {
      refuse(examination, spdlog::level::debug, error.what());  // it will say itself why
    } catch (const std::exception& error) {
      // Who says nothing, like one that knocks to see whether we are there, is not worth a line.
      refuse(examination, examination.hello ? spdlog::level::warn : spdlog::level::debug,
             error.what());
    }
  }

  Task<> shake_hands(Examination& examination) {
    if (job_.encryption.covers(examination.caller.from)) {
      co_await encrypt(host_, examination.caller.link, *keys_, TlsLink::Side::listener);
    }
    Task<Hello> first = hear_hello(host_, *examination.caller.link);
    examination.hello = co_await first;
    co_await examine(host_, *examination.caller.link, job_, *examination.hello,
                     to_string(examination.caller.from));
  }

  void seat(Examination& examination) {
    const Hello& hello = *examination.hello;
    std::optional<Guest>& place = guests_[hello.rank];
    if (place) {
      RosterHead head{hello.rank, RosterHead::Why::here_already};
      write_at_once(*examination.caller.link, object_bytes(head));
      throw Error(
          fmt::format("rank {} is here already, from {}", hello.rank, to_string(place->from)),
          "give each machine a --machine of its own");
    }
    place.emplace(Guest{std::move(examination.caller.link), examination.caller.from, hello});
  }

  // What it says of itself is not proved.
  void refuse(Examination& examination, spdlog::level::level_enum level, const char* why) {
    const std::string from = to_string(examination.caller.from);
    if (!examination.hello || examination.hello->version != kProtocolVersion) {
      spdlog::log(level, "refused a connection from {}: {}", from, why);
    } else {
      const std::uint32_t rank = examination.hello->rank;
      const std::string whom = fmt::format("one from {} that called itself rank {}", from, rank);
      spdlog::log(level, "refused {}: {}", whom, why);
      if (rank < refusals_.size()) refusals_[rank] = fmt::format("{} was refused: {}", whom, why);
    }
    examination.caller.link->close();
  }

  Host& host_;
  Job job_;
  std::optional<TlsKeys> keys_;
  std::unique_ptr<Listener> listener_;
  std::vector<std::optional<Guest>> guests_;
  std::vector<std::string> refusals_;  // by the rank that they claimed to be
  std::optional<Disagreement> disagreement_;
  Bell news_;
  bool is_shut_ = false;
  std::uint64_t hung_up_on_ = 0;
  std::list<Examination> examinations_;
  Running welcoming_;
};

Membership::Membership(std::unique_ptr<Door> door, std::unique_ptr<Mesh> comm)
    : door_(std::move(door)), comm_(std::move(comm)) {}
Membership::Membership(Membership&&) noexcept = default;
Membership::~Membership() = default;
std::uint32_t Membership::port() const { return door_ ? door_->port() : 0; }

namespace {

// We have seen a rank's end ourselves; on whose account it went we do not know.
class Vanished : public HungUp {
 public:
  Vanished(int rank, const std::string& why) : HungUp(why), rank_(rank) {}
  int rank() const { return rank_; }

 private:
  int rank_;
};

[[noreturn]] void throw_lost(int rank, const std::string& why) {
  throw PeerLost(rank, fmt::format("rank {} was lost in joining the job ({})", rank, why),
                 "its own last words may say more");
}

// Names the rank at the other end when it hangs up.
Task<> with(int rank, Task<> talk) {
  try {
    co_await talk;
  } catch (const HungUp& error) {
    throw Vanished(rank, error.what());
  }
}

constexpr const char* kSilent = "it does not answer";

// Until nothing that was sent has been answered for long. A peer that is only busy or stopped still
// answers: its kernel does.
Task<> until_silent(Loop& loop, Link& link) {
  Time since = loop.now();
  for (std::uint64_t answered = 0; loop.now() < since + kSilentFor;) {
    co_await sleep_until(loop, loop.now() + kSilentFor / 8);
    const Link::Signs signs = link.signs_of_life();
    if (!signs.owes_answer || signs.answered_bytes != answered) since = loop.now();
    answered = signs.answered_bytes;
  }
}

// The links of one rank while they come into being.
class NewLinks {
 public:
  NewLinks(Host& host, const Job& job, Address rendezvous, std::unique_ptr<Listener> listener)
      : host_(host),
        job_(job),
        rendezvous_(rendezvous),
        keys_(job.encryption.keys(job.secret)),
        door_(std::make_unique<Door>(host, job, keys_, std::move(listener))),
        peers_(static_cast<std::size_t>(job.size)),
        roster_(peers_.size()) {}

  Task<> gather() {
    if (job_.rank == 0) {
      co_await until_here(1);
      co_await send_roster();
    } else {
      co_await call(0);
      co_await with(0, read_roster());
      has_roster_ = true;
      std::vector<Task<>> meetings;
      for (int rank = 1; rank < job_.rank; ++rank) meetings.push_back(call(rank));
      meetings.push_back(until_here(job_.rank + 1));
      co_await all(std::move(meetings));
    }
    door_->shut();
  }

  // Ends only by an error, when one of those who are here says on whose account there will be no
  // job.
  Task<> hear_on_whose_account() {
    while (true) {
      for (int rank = 0; rank < job_.size; ++rank) {
        try {
          look_at(rank);
        } catch (const Vanished&) {  // another one, and without a word
        }
      }
      co_await news();
    }
  }

  // Whom we wait for, in words.
  std::string whom() {
    if (wait_for_roster()) return "rank 0 to hear from all others";
    return in_words(missing());
  }
  // Why one of those we wait for was sent away, or nothing.
  std::string refusal() {
    for (int rank : missing()) {
      if (!door_->refusal(rank).empty()) return door_->refusal(rank);
    }
    return "";
  }
  // How rank 0 was called in vain, or nothing.
  std::string vain_calls() {
    if (job_.rank == 0 || peer(0)) return "";
    return fmt::format("called {}: {}", host_.describe_way(rendezvous_), vain_);
  }
  // Those we wait for, unless it is for rank 0 to know.
  std::vector<int> missing() {
    if (job_.rank > 0 && !peer(0)) return {0};
    std::vector<int> ranks;
    for (int rank = 0; rank < job_.size; ++rank) {
      if (rank != job_.rank && !peer(rank) && door_->guest(rank) == nullptr) ranks.push_back(rank);
    }
    return ranks;
  }
  // Whether it is for rank 0 to know who is missing.
  bool wait_for_roster() { return job_.rank > 0 && peer(0) && !has_roster_; }

  // Tells those who are here on whose account there will be no job, as far as their links take it at
  // once.
  void give_up(int culprit, RosterHead::Why why = RosterHead::Why::gone) {
    for (int rank = 0; rank < job_.size; ++rank) {
      take_guest(rank);
      if (!peer(rank) || rank == half_told_) continue;
      if (job_.rank == 0 && rank >= told_below_) {  // it waits for the roster
        RosterHead head{static_cast<std::uint32_t>(culprit), why};
        write_at_once(*peer(rank)->link, object_bytes(head));
      } else {
        FrameHeader frame;
        frame.kind = FrameHeader::Kind::abort;
        frame.channel = static_cast<std::uint32_t>(culprit);
        write_at_once(*peer(rank)->link, object_bytes(frame));
      }
    }
  }

  std::unique_ptr<Door> take_door() { return std::move(door_); }
  Peers take_peers() { return std::move(peers_); }

 private:
  std::optional<Mesh::Peer>& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  Address& address_of(int rank) { return roster_[static_cast<std::size_t>(rank)]; }
  Bytes roster_memory() { return std::as_writable_bytes(std::span(roster_)); }
  std::uint64_t roster_bytes() { return sizeof(RosterHead) + roster_memory().size(); }

  // Waits until the ranks [first, size) have come, and for no longer than all who came stay.
  Task<> until_here(int first) {
    while (true) {
      door_->check_agreement();
      for (int rank = 0; rank < job_.size; ++rank) look_at(rank);
      bool all = true;
      for (int rank = first; rank < job_.size; ++rank) all = all && peer(rank);
      if (all) co_return;
      co_await news();
    }
  }

  // No bell tells of the end of one that has begun already: it stands behind a message that is not
  // for us to read.
  Task<> news() {
    const bool some_have_begun = std::ranges::any_of(
        peers_, [](const auto& each) { return each && each->first_bytes == sizeof(FrameHeader); });
    if (!some_have_begun) return hear_news();
    return hear_news_or_look(host_.loop().now() + kLookEvery);
  }
  Task<> hear_news() { co_await door_->news().rung(); }
  Task<> hear_news_or_look(Time when) {
    Task<int> contest = race(hear_news(), sleep_until(host_.loop(), when));
    co_await contest;
  }

  // Throws if that rank was here and has gone, or says on whose account it has. What else it may
  // have sent already begins with a frame that is kept for the mesh.
  void look_at(int rank) {
    take_guest(rank);
    if (!peer(rank) || (rank == 0 && !has_roster_)) return;
    Link& link = *peer(rank)->link;
    FrameHeader& first = peer(rank)->first;
    std::size_t& first_bytes = peer(rank)->first_bytes;
    while (first_bytes < sizeof first) {
      const auto [status, bytes, error] = link.read_some(object_bytes(first).subspan(first_bytes));
      if (status == Link::Status::not_now) {
        return link.when_readable([&news = door_->news()] { news.ring(); });
      }
      if (status == Link::Status::closed) throw Vanished(rank, "it hung up");
      if (status == Link::Status::broken) throw Vanished(rank, error.message());
      first_bytes += bytes;
    }
    hear(first);
    if (!link.signs_of_life().established) read_to_the_end(rank, link, first);
  }

  void hear(const FrameHeader& frame) const {
    if (frame.magic == FrameHeader::kMagic && frame.kind == FrameHeader::Kind::abort) {
      throw_reported(frame.channel, "another rank");
    }
  }
  // Numbers that come over the wire are no ranks yet.
  bool is_in_job(std::uint32_t rank) const { return std::cmp_less(rank, job_.size); }
  [[noreturn]] void throw_reported(std::uint32_t rank, const char* by) const {
    if (!is_in_job(rank)) {
      throw Error(fmt::format("{} reported that rank {} was lost, which there is not", by, rank));
    }
    const int lost = static_cast<int>(rank);
    throw_lost(lost,
               lost == job_.rank ? "the others have lost us" : fmt::format("{} reported it", by));
  }

  // It has begun, and it has gone: behind all that it said may stand why.
  [[noreturn]] void read_to_the_end(int rank, Link& link, FrameHeader frame) const {
    std::vector<std::byte> payload;
    while (true) {
      payload.resize(fragment_bytes(frame.remaining_bytes));
      for (Bytes rest : {Bytes(payload), object_bytes(frame)}) {
        while (!rest.empty()) {
          const Link::Transfer read = link.read_some(rest);
          if (read.status != Link::Status::moved) throw Vanished(rank, "it hung up");
          rest = rest.subspan(read.bytes);
        }
      }
      hear(frame);
    }
  }

  void take_guest(int rank) {
    Door::Guest* guest = door_->guest(rank);
    if (guest == nullptr || peer(rank)) return;
    if (job_.rank == 0) address_of(rank) = {guest->from.ip, guest->hello.listen_port};
    peer(rank).emplace(Mesh::Peer{std::move(guest->link), address_of(rank), kListenerHandshakeBytes,
                                  kCallerHandshakeBytes});
  }

  Task<> send_roster() {
    RosterHead head;
    for (int rank = 1; rank < job_.size; ++rank) {
      half_told_ = rank;
      co_await with(rank, write_all(host_.loop(), *peer(rank)->link, object_bytes(head)));
      co_await with(rank, write_all(host_.loop(), *peer(rank)->link, roster_memory()));
      peer(rank)->handshake_sent_bytes += roster_bytes();
      told_below_ = rank + 1;
    }
    half_told_ = -1;
  }

  Task<> read_roster() {
    RosterHead head;
    Link& link = *peer(0)->link;
    co_await read_exactly(host_.loop(), link, object_bytes(head));
    if (head.missing != RosterHead::kNobody) hear(head);
    co_await read_exactly(host_.loop(), link, roster_memory());
    peer(0)->handshake_received_bytes += roster_bytes();
  }

  [[noreturn]] void hear(const RosterHead& head) const {
    if (head.why == RosterHead::Why::here_already) {
      throw Error(fmt::format("rank 0 has a rank {} already", job_.rank),
                  "give each machine a --machine of its own");
    }
    if (head.why == RosterHead::Why::disagrees) {
      // That one may be of a larger job than ours; whom we have lost in any case is rank 0.
      const int lost = is_in_job(head.missing) ? static_cast<int>(head.missing) : 0;
      throw PeerLost(lost, fmt::format("rank {} was not started like rank 0", head.missing),
                     "their own last words say what differs");
    }
    throw_reported(head.missing, "rank 0");
  }

  Task<> call(int rank) { co_await with(rank, shake_hands(rank)); }
  Task<> shake_hands(int rank) {
    const Address door = rank == 0 ? rendezvous_ : address_of(rank);
    Task<std::unique_ptr<Link>> calling = rank == 0 ? call_patiently(door) : call_once(door);
    std::unique_ptr<Link> link = co_await calling;
    Task<int> contest = race(meet(rank, door, link), until_silent(host_.loop(), *link));
    const int winner = co_await contest;
    if (winner == 1) throw HungUp(kSilent);
    peer(rank).emplace(
        Mesh::Peer{std::move(link), door, kCallerHandshakeBytes, kListenerHandshakeBytes});
    door_->news().ring();
  }

  Task<> meet(int rank, Address door, std::unique_ptr<Link>& link) {
    if (job_.encryption.covers(door)) {
      co_await encrypt(host_, link, *keys_, TlsLink::Side::caller);
    }
    co_await introduce(host_, *link, job_, rank, door_->port());
  }

  // Where somebody is known to listen.
  Task<std::unique_ptr<Link>> call_once(Address to) {
    Host::Answer answer{nullptr, false, kSilent};
    Task<int> contest =
        race(hear_answer(to, answer), sleep_until(host_.loop(), host_.loop().now() + kSilentFor));
    co_await contest;
    if (!answer.link) throw HungUp(answer.why);
    co_return std::move(answer.link);
  }
  Task<> hear_answer(Address to, Host::Answer& answer) {
    Task<Host::Answer> calling = host_.call(to);
    answer = co_await calling;
  }
  // Tries again, for as long as it is allowed to run, while nobody listens there yet.
  Task<std::unique_ptr<Link>> call_patiently(Address to) {
    while (true) {
      Host::Answer answer;
      co_await hear_answer(to, answer);
      if (answer.link) co_return std::move(answer.link);
      vain_ = answer.why;
      co_await sleep_until(host_.loop(), host_.loop().now() + kCallAgainAfter);
    }
  }

  Host& host_;
  const Job& job_;
  Address rendezvous_;
  std::optional<TlsKeys> keys_;
  std::unique_ptr<Door> door_;
  Peers peers_;
  std::vector<Address> roster_;
  bool has_roster_ = false;
  std::string vain_ = kSilent;  // what came of calls to rank 0
  int told_below_ = 1;          // whom rank 0 has sent the roster
  int half_told_ = -1;          // whom it is sending it to
};

// Ends never. One rank of each machine is enough to say it.
Task<> tell_whom_we_wait_for(Host& host, const Job& job, NewLinks& links) {
  const Time begin = host.loop().now();
  for (Time next = begin + kFirstWord;; next += kNextWord) {
    co_await sleep_until(host.loop(), next);
    if (job.rank % job.local_size != 0) continue;
    spdlog::warn("waiting for {} at {}, {} s of {} s", links.whom(), job.rendezvous,
                 std::chrono::duration_cast<std::chrono::seconds>(next - begin).count(),
                 job.timeout.count());
  }
}

// Who hangs up on account of another says so, but not to one it has not shaken hands with yet, and
// its word may come by another way than its end. So whoever sees an end waits a moment to be told.
Task<> meet_all(Host& host, const Job& job, NewLinks& links) {
  // Rank 0 knows best who is missing: the others give it a moment longer, to say so.
  const Time patience = job.timeout + (job.rank == 0 ? Time(0) : kToBeTold);
  std::optional<Vanished> vanished;
  try {
    const Running telling(tell_whom_we_wait_for(host, job, links));
    co_await within(host.loop(), host.loop().now() + patience, "joining the job", links.gather());
  } catch (const Vanished& lost) {
    vanished = lost;
  }
  if (!vanished) co_return;
  Task<int> told =
      race(links.hear_on_whose_account(), sleep_until(host.loop(), host.loop().now() + kToBeTold));
  co_await told;
  throw_lost(vanished->rank(), vanished->what());
}

Error nobody_came(const Job& job, NewLinks& links) {
  const std::string refusal = links.refusal(), calls = links.vain_calls();
  return Error(fmt::format("waited {} s for {}{}", job.timeout.count(), links.whom(),
                           calls.empty() ? "" : fmt::format(", {}", calls)),
               refusal.empty() ? "see that every worker was started and can reach " + job.rendezvous
                               : refusal);
}

}  // namespace

Task<Membership> join_task(Host& host, Job job, std::unique_ptr<Listener> listener) {
  if (job.size == 1) return meet_task(host, std::move(job), {}, nullptr);
  const Address rendezvous = host.find(job.rendezvous);
  if (!listener) listener = host.listen(rendezvous, job.rank == 0 ? rendezvous.port : 0);
  return meet_task(host, std::move(job), rendezvous, std::move(listener));
}

Task<Membership> meet_task(Host& host, Job job, Address rendezvous,
                           std::unique_ptr<Listener> listener) {
  if (job.size == 1) co_return Membership(nullptr, std::make_unique<Mesh>(host, 0, Peers(1)));

  NewLinks links(host, job, rendezvous, std::move(listener));
  try {
    co_await meet_all(host, job, links);
  } catch (const PeerLost& lost) {
    links.give_up(lost.rank());
    throw;
  } catch (const Disagreement& disagreement) {
    links.give_up(disagreement.rank(), RosterHead::Why::disagrees);
    throw;
  } catch (const DeadlineExceeded&) {
    const std::vector<int> missing = links.missing();
    if (!missing.empty() && !links.wait_for_roster()) links.give_up(missing.front());
    throw nobody_came(job, links);
  }
  auto comm = std::make_unique<Mesh>(host, job.rank, links.take_peers());
  co_return Membership(links.take_door(), std::move(comm));
}

std::unique_ptr<Listener> inherited_listener(TcpHost& host, const Job& job) {
  return job.rank == 0 && job.listen_fd >= 0 ? host.adopt(job.listen_fd) : nullptr;
}

Membership join(TcpHost& host, const Job& job) {
  return host.loop().run(join_task(host, job, inherited_listener(host, job)));
}

}  // namespace starling
