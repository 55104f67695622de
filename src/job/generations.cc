#include "job/generations.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "exchange/collectives.h"
#include "job/terms.h"
#include "runtime/race.h"

namespace starling {

namespace {

constexpr Channel kMembersChannel{5, Purpose::control, "introducing the members"};
constexpr std::chrono::seconds kTimeToMeet{15};  // for those who have just agreed on it

struct Overtaken : Error {
  using Error::Error;
};
struct Dead : Error {
  using Error::Error;
};

// "10.0.0.1:40001,10.0.0.2:40001"
std::vector<std::string> doors_in(const std::string& text) {
  std::vector<std::string> doors;
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    end = std::min(text.find(',', begin), text.size());
    doors.push_back(text.substr(begin, end - begin));
  }
  return doors;
}

// Only who begins a job together goes on from a checkpoint: later generations have what these have.
Job without_past(Job job) {
  job.resume.clear();
  return job;
}

}  // namespace

Generations::Generations(Host& host, Job job, Council::Rules rules, Member::Role role)
    : host_(host), job_(std::move(job)), rules_(rules), role_(role) {
  rules_.terms = digest_of(terms_of(without_past(job_)));
  host_.draw(object_bytes(id_));
}

Generations::~Generations() {
  member_.reset();
  if (door_) door_->close();  // before the council, which answers there
}

Task<> Generations::begin(std::unique_ptr<Listener> listener) {
  const bool is_guest = !job_.guest_of.empty();
  for (const std::string& door : doors_in(job_.guest_of)) {
    roster_.members.push_back(Member{0, host_.find(door)});
  }
  place_ = is_guest ? roster_.members[0].door : host_.find(job_.rendezvous);
  // A server has its machine's worker beside it, at the port that is known.
  const int port = role_ == Member::Role::worker ? job_.door_port : 0;
  door_ = std::make_unique<RosterDoor>(host_, without_past(job_),
                                       host_.listen(place_, static_cast<std::uint32_t>(port)));
  if (!is_guest) co_await meet_first(std::move(listener));
  Member self{id_, {place_.ip, door_->port()}, 0, role_};
  if (!is_guest) self = roster_.members[static_cast<std::size_t>(rank())];
  std::uint64_t seed = 0;
  host_.draw(object_bytes(seed));
  council_ = std::make_unique<Council>(host_.loop(), *door_, self, roster_, rules_, seed);
  take_spare();
  if (!is_guest) council_->has_met();
  door_->open([this](const Message& question, const Address& from) {
    Message answer = council_->answer(question, from);
    if (question.kind == Message::Kind::describe) {
      answer.text = job_.settings.substr(0, kMostTextBytes);
    }
    return answer;
  });
  if (!is_guest) co_return;
  Task<bool> entering = next();
  const bool is_in = co_await entering;
  if (!is_in) throw Error("the job it would have joined has come to its end");
}

// Rank 0 knows where everybody is, since everybody has called it.
Task<> Generations::meet_first(std::unique_ptr<Listener> listener) {
  Task<Membership> joining = join_task(host_, job_, std::move(listener));
  member_.emplace(co_await joining);
  const int n = comm().size();
  roster_.generation = 1;
  roster_.members.resize(static_cast<std::size_t>(n));
  roster_.members[static_cast<std::size_t>(comm().rank())] =
      Member{id_, {place_.ip, door_->port()}, 0, role_};
  const Vector all(std::as_writable_bytes(std::span(roster_.members)));
  co_await all_gather(comm(), kMembersChannel, all, even_pieces(all, n));
  if (comm().rank() == 0) {
    for (int rank = 1; rank < n; ++rank) {
      roster_.members[static_cast<std::size_t>(rank)].door.ip = comm().door(rank).ip;
    }
  }
  co_await broadcast(comm(), kMembersChannel, all, 0);
}

bool Generations::can_go_on_after(const Error& error) {
  return has_comm() &&
         (comm().gone_count() > 0 || dynamic_cast<const PeerLost*>(&error) != nullptr ||
          dynamic_cast<const CutOff*>(&error) != nullptr ||
          dynamic_cast<const DeadlineExceeded*>(&error) != nullptr);
}

Mesh& Generations::comm() {
  if (!member_) throw Error("this worker is between two generations", "join the next one first");
  return member_->comm();
}

// The next one is made first: if there is no descriptor left for it, nothing has changed.
std::unique_ptr<Listener> Generations::take_spare() {
  std::unique_ptr<Listener> next = host_.listen(place_, 0);
  council_->listen_at(next->port());
  return std::exchange(spare_, std::move(next));
}

// A generation that does not come together ends like any other.
Task<bool> Generations::next() {
  member_.reset();
  const Roster last = roster_;
  while (true) {
    Task<bool> agreeing = council_->next();
    const bool is_in = co_await agreeing;
    if (!is_in) co_return false;
    roster_ = council_->roster();
    std::optional<std::uint64_t> missing;
    std::vector<std::uint64_t> guests;
    for (const Member& member : roster_.members) {
      if (!last.has(member.id) && member.id != id_) guests.push_back(member.id);
    }
    try {
      co_await enter();
      council_->has_met();
      co_return true;
    } catch (const Overtaken&) {
      continue;
    } catch (const Dead& dead) {
      spdlog::debug("generation {} did not come together: {}", roster_.generation, dead.what());
      guests.clear();  // it is not their fault
    } catch (const PeerLost& lost) {
      spdlog::debug("generation {} did not come together: {}", roster_.generation, lost.what());
      missing = roster_.members[static_cast<std::size_t>(lost.rank())].id;
    } catch (const Error& error) {
      spdlog::debug("generation {} did not come together: {}", roster_.generation, error.what());
    }
    council_->did_not_meet(missing, guests);
  }
}

Task<> Generations::enter() {
  Job job = job_of_generation();
  std::unique_ptr<Listener> listener = take_spare();
  if (roster_.members[static_cast<std::size_t>(job.rank)].port != listener->port()) {
    throw Error("the others expect us at another port");
  }
  Task<int> contest = race(meet(std::move(job), std::move(listener)), until_in_vain());
  const int first = co_await contest;
  if (first != 0) throw Overtaken("a later generation was decided");
}

Task<> Generations::until_in_vain() {
  Task<int> contest = race(until_overtaken(), until_one_is_dead());
  co_await contest;
}

// Who dies before it has called rank 0 is only missed by it, and rank 0 by all others.
Task<> Generations::until_one_is_dead() {
  std::vector<int> awaited{0};
  if (rank() == 0) {
    awaited.resize(roster_.members.size() - 1);
    std::iota(awaited.begin(), awaited.end(), 1);
  }
  Task<int> looking = council_->first_dead(std::move(awaited));
  const int dead = co_await looking;
  throw Dead(fmt::format("rank {} has died on its way to it", dead));
}

Task<> Generations::meet(Job job, std::unique_ptr<Listener> listener) {
  Task<Membership> meeting =
      meet_task(host_, std::move(job), roster_.members[0].links(), std::move(listener));
  member_.emplace(co_await meeting);
}

// Some of those we wait for may be on their way to a later one.
Task<> Generations::until_overtaken() {
  while (council_->roster().generation == roster_.generation) co_await council_->news().rung();
}

// No link of another generation can be taken for one of this, as its secret is another.
Job Generations::job_of_generation() const {
  Job job = without_past(job_);
  job.rank = rank();
  job.size = static_cast<int>(roster_.members.size());
  job.secret += fmt::format("\ngeneration {}", roster_.generation);
  job.timeout = std::min(job.timeout, kTimeToMeet);
  return job;
}

}  // namespace starling
