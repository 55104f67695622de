#include "plan/simulated_flock.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace starling {

using namespace std::chrono_literals;

SimulatedFlock::SimulatedFlock(FlockPlan plan, int servers, std::uint64_t seed,
                               Council::Rules rules, Work work, Witness witness)
    : plan_(std::move(plan)),
      servers_(servers),
      hosts_(plan_.hosts + servers),
      rules_(rules),
      work_(std::move(work)),
      witness_(std::move(witness)),
      hub_(loop_, hosts_, seed, plan_.weather),
      lives_(static_cast<std::size_t>(hosts_)) {}

void SimulatedFlock::run(Task<> until) {
  for (int host = 0; host < hosts_; ++host) {
    if (host < plan_.size || serves(host)) start(host, "");
  }
  for (const FlockEvent& event : plan_.events) {
    loop_.at(event.when + 1s, [this, &event] { happen(event); });
  }
  loop_.run(std::move(until));
}

bool SimulatedFlock::is_member(int host) const { return is_up(host) && life(host).was_member; }
bool SimulatedFlock::is_up(int host) const { return life(host).running && !life(host).ends; }

void SimulatedFlock::tell(const std::string& event) {
  log_ << event << "\n";
  if (witness_) witness_(event);
}

std::string SimulatedFlock::story() const {
  std::ostringstream story;
  story << plan_ << "\n" << log_.str() << "trace " << hub_.trace();
  return story.str();
}

void SimulatedFlock::start(int host, const std::string& guest_of) {
  Life& life = this->life(host);
  life = {};
  Job job;
  job.rank = serves(host) ? plan_.size + host - plan_.hosts : host;
  job.size = plan_.size + servers_;
  job.rendezvous = "host 0:29400";
  job.guest_of = guest_of;
  job.secret = "a secret";
  job.timeout = 20s;
  job.encryption.links = plan_.encrypted ? Encryption::Links::all : Encryption::Links::none;
  const auto role = serves(host) ? Member::Role::server : Member::Role::worker;
  life.job = std::make_unique<Generations>(hub_.host(host), job, rules_, role);
  life.running = std::make_unique<Running>(live(host));
}

void SimulatedFlock::kill(int host) {
  Life& life = this->life(host);
  if (!life.running) return;
  hub_.kill(host);
  life.running.reset();
  life.job.reset();
  life.ends = true;
}

Task<> SimulatedFlock::live(int host) {
  Life& life = this->life(host);
  try {
    co_await life.job->begin();
    life.was_member = true;
    co_await work_(host, *life.job);
  } catch (const Error& error) {
    tell(fmt::format("host {} ended: {}", host, error.what()));
  }
  life.ends = true;
  loop_.at(loop_.now() + 1ms, [this, host] { kill(host); });  // its process ends
}

// Of all members, as a launcher knows them.
std::string SimulatedFlock::doors() const {
  std::string doors;
  for (int host = 0; host < hosts_; ++host) {
    if (!is_member(host)) continue;
    doors += fmt::format("{}host {}:{}", doors.empty() ? "" : ",", host,
                         life(host).job->council().self().door.port);
  }
  return doors;
}

void SimulatedFlock::happen(const FlockEvent& event) {
  using Kind = FlockEvent::Kind;
  switch (event.kind) {
    case Kind::kill:
      if (life(event.hosts[0]).was_member) kill(event.hosts[0]);
      break;
    case Kind::restart:
    case Kind::join: {
      const int host = event.hosts[0];
      const std::string door = doors();
      if (!life(host).running && !door.empty()) start(host, door);
      break;
    }
    case Kind::leave:
      if (is_member(event.hosts[0])) life(event.hosts[0]).job->council().leave();
      break;
    case Kind::cut:
    case Kind::cut_one_way:
      cut(event);
      break;
    case Kind::heal:
      for (const auto& [a, b] : cuts_) hub_.mend(a, b);
      break;
  }
}

void SimulatedFlock::cut(const FlockEvent& event) {
  const auto is_among = [&](int host) { return std::ranges::count(event.hosts, host) > 0; };
  for (int a = 0; a < hosts_; ++a) {
    for (int b = 0; b < hosts_; ++b) {
      if (is_among(a) == is_among(b)) continue;
      if (event.kind == FlockEvent::Kind::cut_one_way && !is_among(a)) continue;
      hub_.cut(a, b);
      cuts_.emplace_back(a, b);
    }
  }
}

}  // namespace starling
