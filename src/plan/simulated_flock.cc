#include "plan/simulated_flock.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "runtime/race.h"

namespace starling {

using namespace std::chrono_literals;

namespace {
constexpr int kSameDoor = 29'401;
}

SimulatedFlock::SimulatedFlock(FlockPlan plan, int servers, std::uint64_t seed,
                               Council::Rules rules, Work work, Witness witness)
    : plan_(std::move(plan)),
      servers_(servers),
      hosts_(plan_.hosts + servers),
      rules_(rules),
      work_(std::move(work)),
      witness_(std::move(witness)),
      hub_(loop_, hosts_, seed, plan_.weather, plan_.faults),
      lives_(static_cast<std::size_t>(hosts_)) {}

void SimulatedFlock::run(Task<> until) {
  for (int host = 0; host < hosts_; ++host) {
    if (host < plan_.size || serves(host)) start(host, "");
  }
  plan_faults();
  loop_.run(std::move(until));
}

// Those of processes; the rest is the switch's.
void SimulatedFlock::plan_faults() {
  for (const auto& [host, at] : plan_.faults.crashes) {
    loop_.at(at, [this, host = host] {
      if (life(host).was_member) kill(host);
    });
  }
  for (const auto& [host, at] : plan_.faults.leaves) {
    loop_.at(at, [this, host = host] {
      if (is_member(host)) life(host).job->council().leave();
    });
  }
  for (const auto& [host, at] : plan_.faults.restarts) {
    loop_.at(at, [this, host = host] {
      const std::string door = doors();
      if (!life(host).running && !door.empty()) start(host, door);
    });
  }
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
  hub_.host(host).start_anew();
  Job job;
  job.rank = serves(host) ? plan_.size + host - plan_.hosts : host;
  job.size = plan_.size + servers_;
  job.rendezvous = "host 0:29400";
  job.guest_of = guest_of;
  job.secret = "a secret";
  job.timeout = 20s;
  if (plan_.same_doors) job.door_port = kSameDoor;
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
    Task<int> contest = race(work_(host, *life.job), fail_when_told(host));
    co_await contest;
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

Task<> SimulatedFlock::fail_when_told(int host) {
  Time next = Time::max();
  for (const auto& [rank, at] : plan_.faults.failures) {
    if (rank == host && at >= loop_.now()) next = std::min(next, at);
  }
  co_await sleep_until(loop_, next);
  throw Error("it fails, as it was told to");
}

}  // namespace starling
