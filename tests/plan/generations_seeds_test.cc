// Generations on simulated hosts, in any weather and with all that may befall them: there is never more
// than one roster of a generation, and after everything has healed all who live work together again.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.h"
#include "exchange/allreduce.h"
#include "plan/simulated_flock.h"
#include "runtime/race.h"
#include "tests/seeds.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

constexpr Channel kStep{30, Purpose::gradients, "a step"};
constexpr Time kHealed = 150s;  // by then all must be together again
constexpr Time kEnd = 170s;

Council::Rules patient_rules() {
  Council::Rules rules;
  rules.patience = 8s;
  rules.wait = 1000s;
  return rules;
}

class FlockWorld {
 public:
  explicit FlockWorld(std::uint64_t seed) : FlockWorld(FlockPlan(Random{seed, 1}), seed) {}
  FlockWorld(const FlockPlan& plan, std::uint64_t seed)
      : flock_(plan, 0, seed, patient_rules(),
               [this](int host, Generations& job) { return work(host, job); }),
        loop_(flock_.loop()),
        places_(static_cast<std::size_t>(flock_.hosts())) {}

  std::string run() {
    flock_.run(sleep_until(loop_, kEnd));
    check();
    return flock_.story();
  }

 private:
  struct Place {
    std::uint64_t generation = 0;
    std::uint64_t steps_since_healed = 0;
  };

  Task<> work(int host, Generations& job) {
    places_[static_cast<std::size_t>(host)] = {};
    std::uint64_t steps = 0;
    bool is_in = true;
    entered(host, job);
    while (is_in) {
      bool over = job.council().is_due();
      if (!over) {
        try {
          Loop& loop = job.comm().loop();
          co_await within(loop, loop.now() + 20s, "a step", step(host, job.comm()));
          job.council().note_step(++steps);
        } catch (const Error&) {
          over = true;
        }
      }
      if (!over) continue;
      Task<bool> next = job.next();
      is_in = co_await next;
      steps = 0;
      if (is_in) entered(host, job);
    }
  }

  void entered(int host, const Generations& job) {
    const Roster& roster = job.roster();
    places_[static_cast<std::size_t>(host)].generation = roster.generation;
    const auto [known, is_new] = rosters_.emplace(roster.generation, roster);
    EXPECT_EQ(known->second, roster) << "generation " << roster.generation << " has two rosters";
    flock_.tell(fmt::format("host {} is rank {} of {} in generation {} at {} ms", host, job.rank(),
                            roster.members.size(), roster.generation,
                            loop_.now().count() / 1'000'000));
  }

  Task<> step(int host, Comm& comm) {
    std::vector<float> one(3, 1.0f);
    co_await allreduce(find_allreduce("ring"), Group(comm), kStep, Vector(one), Reduction::sum);
    EXPECT_EQ(one[1], static_cast<float>(comm.size()));
    if (loop_.now() > kHealed) ++places_[static_cast<std::size_t>(host)].steps_since_healed;
    co_await sleep_until(comm.loop(), comm.loop().now() + 100ms);
  }

  // Where no member is left, there is nothing to join.
  void check() {
    std::set<std::uint64_t> generations;
    bool is_any_left = false;
    for (int host = 0; host < flock_.hosts(); ++host) {
      is_any_left = is_any_left || flock_.is_member(host);
    }
    for (int host = 0; host < flock_.hosts() && is_any_left; ++host) {
      if (!flock_.is_up(host)) continue;
      const Place& place = places_[static_cast<std::size_t>(host)];
      generations.insert(place.generation);
      EXPECT_GT(place.steps_since_healed, 20u) << "host " << host << " does not get on";
    }
    EXPECT_LE(generations.size(), 1u) << "they are not together";
  }

  std::map<std::uint64_t, Roster> rosters_;
  SimulatedFlock flock_;
  SimLoop& loop_;
  std::vector<Place> places_;
};

TEST(GenerationsSeeds, NeverForkAndComeTogetherAgain) {
  each_seed_twice_alike(100, [](std::uint64_t seed) { return FlockWorld(seed).run(); });
}

// The lower of two, whom the other cannot outvote, comes back at the same address and port.
TEST(GenerationsSeeds, OneWhoTakesOverADoorDoesNotKeepTheDeadAlive) {
  FlockPlan plan(Random{1, 1});
  plan.size = 2;
  plan.hosts = 3;
  plan.same_doors = true;
  plan.faults = {};
  plan.faults.crashes.push_back({0, 8s});
  plan.faults.restarts.push_back({0, 8s + 10ms});
  FlockWorld(plan, 1).run();
}

}  // namespace
}  // namespace starling
