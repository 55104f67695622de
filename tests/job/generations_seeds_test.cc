// Generations on simulated hosts, in any weather and with all that may befall them: there is never more
// than one roster of a generation, and after everything has healed all who live work together again.
#include "job/generations.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

#include "base/error.h"
#include "exchange/allreduce.h"
#include "runtime/race.h"
#include "sim/switch.h"
#include "tests/job/flock_plan.h"
#include "tests/seeds.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

constexpr Channel kStep{30, Purpose::gradients, "a step"};
constexpr Time kHealed = 150s;  // by then all must be together again
constexpr Time kEnd = 170s;

class FlockWorld {
 public:
  explicit FlockWorld(std::uint64_t seed)
      : plan_(Random{seed, 1}),
        hub_(loop_, plan_.hosts, seed, plan_.weather),
        lives_(static_cast<std::size_t>(plan_.hosts)) {}

  std::string run() {
    for (int host = 0; host < plan_.size; ++host) start(host, "");
    for (const FlockEvent& event : plan_.events) {
      loop_.at(event.when + 1s, [this, &event] { happen(event); });
    }
    loop_.run(sleep_until(loop_, kEnd));
    check();
    std::ostringstream story;
    story << plan_.size << " hosts, " << (plan_.encrypted ? "encrypted, " : "") << plan_.weather
          << "\n";
    for (const FlockEvent& event : plan_.events) story << event;
    story << log_.str() << "trace " << hub_.trace();
    lives_.clear();
    return story.str();
  }

 private:
  struct Life {
    std::unique_ptr<Generations> job;
    std::unique_ptr<Running> running;
    bool ends = false;  // it was killed, or has left
    std::uint64_t generation = 0;
    std::uint64_t steps_since_healed = 0;
  };
  Life& life(int host) { return lives_[static_cast<std::size_t>(host)]; }

  void start(int host, const std::string& guest_of) {
    Life& life = this->life(host);
    life = {};
    Job job;
    job.rank = host;
    job.size = plan_.size;
    job.rendezvous = "host 0:29400";
    job.guest_of = guest_of;
    job.secret = "a secret";
    job.timeout = 20s;
    job.encryption.links = plan_.encrypted ? Encryption::Links::all : Encryption::Links::none;
    Council::Rules rules;
    rules.patience = 8s;
    rules.wait = 1000s;
    life.job = std::make_unique<Generations>(hub_.host(host), job, rules, Member::Role::worker);
    life.running = std::make_unique<Running>(live(host));
  }

  void kill(int host) {
    Life& life = this->life(host);
    if (!life.running) return;
    hub_.kill(host);
    life.running.reset();
    life.job.reset();
    life.ends = true;
  }

  // Of all who are there, as a launcher knows them.
  std::string doors() {
    std::string doors;
    for (int host = 0; host < plan_.hosts; ++host) {
      Life& life = this->life(host);
      if (life.running && !life.ends && life.generation > 0) {
        doors += fmt::format("{}host {}:{}", doors.empty() ? "" : ",", host,
                             life.job->council().self().door.port);
      }
    }
    return doors;
  }

  void happen(const FlockEvent& event) {
    using Kind = FlockEvent::Kind;
    const auto is_among = [&](int host) { return std::ranges::count(event.hosts, host) > 0; };
    switch (event.kind) {
      case Kind::kill:
        if (life(event.hosts[0]).generation > 0) kill(event.hosts[0]);
        break;
      case Kind::restart:
      case Kind::join: {
        const int host = event.hosts[0];
        const std::string door = doors();
        if (!life(host).running && !door.empty()) start(host, door);
        break;
      }
      case Kind::leave: {
        Life& life = this->life(event.hosts[0]);
        if (life.running && life.generation > 0 && !life.ends) life.job->council().leave();
        break;
      }
      case Kind::cut:
      case Kind::cut_one_way:
        for (int a = 0; a < plan_.hosts; ++a) {
          for (int b = 0; b < plan_.hosts; ++b) {
            if (is_among(a) == is_among(b)) continue;
            if (event.kind != Kind::cut && !is_among(a)) continue;
            hub_.cut(a, b);
            cuts_.emplace_back(a, b);
          }
        }
        break;
      case Kind::heal:
        for (const auto& [a, b] : cuts_) hub_.mend(a, b);
        break;
      case Kind::vanish:
        break;
    }
  }

  Task<> live(int host) {
    Life& life = this->life(host);
    Generations& job = *life.job;
    try {
      co_await job.begin();
      std::uint64_t steps = 0;
      bool is_in = true;
      entered(host);
      while (is_in) {
        bool over = job.council().is_due();
        if (!over) {
          try {
            co_await within(loop_, loop_.now() + 20s, "a step", step(host));
            job.council().note_step(++steps);
          } catch (const Error&) {
            over = true;
          }
        }
        if (!over) continue;
        Task<bool> next = job.next();
        is_in = co_await next;
        steps = 0;
        if (is_in) entered(host);
      }
    } catch (const Error& error) {
      log_ << "host " << host << " ended: " << error.what() << "\n";
    }
    life.ends = true;
    loop_.at(loop_.now() + 1ms, [this, host] { kill(host); });  // its process ends
  }

  void entered(int host) {
    Life& life = this->life(host);
    const Roster& roster = life.job->roster();
    life.generation = roster.generation;
    const auto [known, is_new] = rosters_.emplace(roster.generation, roster);
    EXPECT_EQ(known->second, roster) << "generation " << roster.generation << " has two rosters";
    log_ << "host " << host << " is rank " << life.job->rank() << " of " << roster.members.size()
         << " in generation " << roster.generation << " at " << loop_.now().count() / 1'000'000
         << " ms\n";
  }

  Task<> step(int host) {
    Life& life = this->life(host);
    Comm& comm = life.job->comm();
    std::vector<float> one(3, 1.0f);
    co_await allreduce(find_allreduce("ring"), Group(comm), kStep, Vector(one), Reduction::sum);
    EXPECT_EQ(one[1], static_cast<float>(comm.size()));
    if (loop_.now() > kHealed) ++life.steps_since_healed;
    co_await sleep_until(loop_, loop_.now() + 100ms);
  }

  void check() {
    // Where no member is left, there is nothing to join.
    if (doors().empty()) return;
    std::set<std::uint64_t> generations;
    for (int host = 0; host < plan_.hosts; ++host) {
      const Life& life = this->life(host);
      if (!life.running || life.ends) continue;
      generations.insert(life.generation);
      EXPECT_GT(life.steps_since_healed, 20u) << "host " << host << " does not get on";
    }
    EXPECT_LE(generations.size(), 1u) << "they are not together";
  }

  FlockPlan plan_;
  SimLoop loop_;
  Switch hub_;
  std::vector<std::pair<int, int>> cuts_;
  std::vector<Life> lives_;
  std::map<std::uint64_t, Roster> rosters_;
  std::ostringstream log_;
};

TEST(GenerationsSeeds, NeverForkAndComeTogetherAgain) {
  each_seed_twice_alike(100, [](std::uint64_t seed) { return FlockWorld(seed).run(); });
}

}  // namespace
}  // namespace starling
